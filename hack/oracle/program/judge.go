package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// A verdict is a status that was not success, of a plugin or about some nodes.
type verdict struct {
	Code    string   `json:"code"`
	Reasons []string `json:"reasons,omitempty"`
	Plugin  string   `json:"plugin,omitempty"`
	Nodes   []int    `json:"nodes,omitempty"`
	Only    []string `json:"only,omitempty"`
}

type scores struct {
	Raw        []int64 `json:"raw"`
	Normalized []int64 `json:"normalized"`
	Weighted   []int64 `json:"weighted"`
}

// An outcome is what one scheduling cycle makes of it.
type outcome struct {
	Host    string   `json:"host,omitempty"`
	Message string   `json:"message,omitempty"`
	Plugins []string `json:"plugins,omitempty"`
	Error   string   `json:"error,omitempty"`
	// What becomes of the pod's nomination where no node fits: a node's name where room is made
	// there, nothing where it is taken away, null where it stays as it is.
	Nominates *string `json:"nominates,omitempty"`
}

type podAnswer struct {
	// Which plugins keep the pod out of the queue.
	PreEnqueue map[string]verdict `json:"preEnqueue,omitempty"`
	// What each plugin says in PreFilter, where it is not plain success.
	PreFilter map[string]verdict `json:"preFilter,omitempty"`
	// What each plugin that does not skip says in Filter, asked alone about every node.
	Filter map[string][]verdict `json:"filter,omitempty"`
	// What all filters together say, nominated pods taken into account.
	Combined []verdict `json:"combined,omitempty"`
	// The nodes that are left after PreFilter and Filter, and their scores.
	Feasible   []int             `json:"feasible,omitempty"`
	Scores     map[string]scores `json:"scores,omitempty"`
	ScoreError string            `json:"scoreError,omitempty"`
	Totals     []int64           `json:"totals,omitempty"`
	Outcome    outcome           `json:"outcome"`
}

func (c *cluster) judge(ctx context.Context, pod *v1.Pod) podAnswer {
	given := podAnswer{PreEnqueue: c.gates(ctx, pod), Outcome: c.schedule(ctx, pod)}
	c.askSeparately(ctx, pod, &given)
	state := framework.NewCycleState()
	narrowed, status, _ := c.framework.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		return given
	}
	var statuses []*fwk.Status
	given.Combined, statuses = c.everywhere(func(node fwk.NodeInfo) *fwk.Status {
		return c.framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
	})
	for index, status := range statuses {
		inside := narrowed.AllNodes() || narrowed.NodeNames.Has(c.names[index])
		if status.IsSuccess() && inside {
			given.Feasible = append(given.Feasible, index)
		}
	}
	if len(given.Feasible) > 0 {
		c.score(ctx, state, pod, &given)
	}
	return given
}

// gates asks who would keep the pod out of the queue; everything else is asked all the same.
func (c *cluster) gates(ctx context.Context, pod *v1.Pod) map[string]verdict {
	closed := map[string]verdict{}
	for _, plugin := range c.framework.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, pod); !status.IsSuccess() {
			closed[plugin.Name()] = verdictOf(status)
		}
	}
	return closed
}

// schedule runs the cycle as the scheduler does: SchedulePod, with nothing in between, and the
// post-filter plugins where no node fits.
func (c *cluster) schedule(ctx context.Context, pod *v1.Pod) outcome {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		// The queue would go on with what could be read of it; whoever asks only wants to know.
		return outcome{Error: err.Error()}
	}
	state := framework.NewCycleState()
	result, err := c.scheduler.SchedulePod(ctx, c.framework, state, &framework.QueuedPodInfo{PodInfo: info})
	var fitError *framework.FitError
	if errors.As(err, &fitError) {
		return c.makeRoom(ctx, state, pod, fitError)
	}
	if err != nil {
		return outcome{Error: err.Error()}
	}
	return outcome{Host: result.SuggestedHost}
}

// makeRoom asks the post-filter plugins, and writes the message with what they add. Preemption
// reads the pod anew, from where an informer would have put it.
func (c *cluster) makeRoom(ctx context.Context, state fwk.CycleState, pod *v1.Pod, found *framework.FitError) outcome {
	given := outcome{Plugins: found.Diagnosis.UnschedulablePlugins.UnsortedList()}
	sort.Strings(given.Plugins)
	if c.framework.HasPostFilterPlugins() {
		if err := c.pods.Add(pod); err != nil {
			return outcome{Error: err.Error()}
		}
		defer func() { _ = c.pods.Delete(pod) }()
		result, status := c.framework.RunPostFilterPlugins(ctx, state, pod, found.Diagnosis.NodeToStatus)
		found.Diagnosis.PostFilterMsg = status.Message()
		if result != nil && result.Mode() == fwk.ModeOverride {
			given.Nominates = &result.NominatedNodeName
		}
	}
	given.Message = found.Error()
	return given
}

func (c *cluster) askSeparately(ctx context.Context, pod *v1.Pod, given *podAnswer) {
	given.PreFilter, given.Filter = map[string]verdict{}, map[string][]verdict{}
	listed := c.framework.ListPlugins()
	state := framework.NewCycleState()
	silent := map[string]bool{}
	for _, ref := range listed.PreFilter.Enabled {
		result, status := c.plugins[ref.Name].(fwk.PreFilterPlugin).PreFilter(ctx, state, pod, c.nodes)
		silent[ref.Name] = !status.IsSuccess()
		if !status.IsSuccess() || !result.AllNodes() {
			found := verdictOf(status)
			if !result.AllNodes() {
				found.Only = result.NodeNames.UnsortedList()
				sort.Strings(found.Only)
			}
			given.PreFilter[ref.Name] = found
		}
	}
	for _, ref := range listed.Filter.Enabled {
		if silent[ref.Name] {
			continue
		}
		plugin := c.plugins[ref.Name].(fwk.FilterPlugin)
		found, _ := c.everywhere(func(node fwk.NodeInfo) *fwk.Status {
			return plugin.Filter(ctx, state, pod, node)
		})
		given.Filter[ref.Name] = found
	}
}

// everywhere asks about every node and puts together those of which the same is said.
func (c *cluster) everywhere(ask func(fwk.NodeInfo) *fwk.Status) ([]verdict, []*fwk.Status) {
	said := []verdict{}
	at := map[string]int{}
	statuses := make([]*fwk.Status, len(c.nodes))
	for index, node := range c.nodes {
		status := ask(node)
		statuses[index] = status
		if status.IsSuccess() {
			continue
		}
		found := verdictOf(status)
		key := fmt.Sprintf("%s|%s|%s", found.Code, found.Plugin, strings.Join(found.Reasons, "|"))
		if _, known := at[key]; !known {
			at[key] = len(said)
			said = append(said, found)
		}
		said[at[key]].Nodes = append(said[at[key]].Nodes, index)
	}
	return said, statuses
}

// verdictOf sorts the reasons: upstream takes some of them from a map.
func verdictOf(status *fwk.Status) verdict {
	if status == nil {
		return verdict{Code: fwk.Success.String()}
	}
	reasons := append([]string(nil), status.Reasons()...)
	sort.Strings(reasons)
	return verdict{Code: status.Code().String(), Reasons: reasons, Plugin: status.Plugin()}
}

func (c *cluster) score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, given *podAnswer) {
	nodes := make([]fwk.NodeInfo, len(given.Feasible))
	for index, node := range given.Feasible {
		nodes[index] = c.nodes[node]
	}
	if status := c.framework.RunPreScorePlugins(ctx, state, pod, nodes); !status.IsSuccess() {
		given.ScoreError = status.Message()
		return
	}
	weighted, status := c.framework.RunScorePlugins(ctx, state, pod, nodes)
	if !status.IsSuccess() {
		given.ScoreError = status.Message()
		return
	}
	given.Scores = map[string]scores{}
	given.Totals = make([]int64, len(nodes))
	for index, each := range weighted {
		given.Totals[index] = each.TotalScore
		for _, score := range each.Scores {
			found := given.Scores[score.Name]
			found.Weighted = append(found.Weighted, score.Score)
			given.Scores[score.Name] = found
		}
	}
	for name, found := range given.Scores {
		given.Scores[name] = c.scoreAlone(ctx, state, pod, nodes, name, found)
	}
}

func (c *cluster) scoreAlone(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, name string, found scores) scores {
	plugin := c.plugins[name].(fwk.ScorePlugin)
	list := make(fwk.NodeScoreList, len(nodes))
	for index, node := range nodes {
		score, _ := plugin.Score(ctx, state, pod, node)
		list[index] = fwk.NodeScore{Name: node.Node().Name, Score: score}
	}
	found.Raw = values(list)
	if normalizer := plugin.ScoreExtensions(); normalizer != nil {
		normalizer.NormalizeScore(ctx, state, pod, list)
	}
	found.Normalized = values(list)
	return found
}

func values(list fwk.NodeScoreList) []int64 {
	found := make([]int64, len(list))
	for index, each := range list {
		found[index] = each.Score
	}
	return found
}
