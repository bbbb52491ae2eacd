// The oracle: what the plugins of the pinned kube-scheduler say about given objects.
//
// One JSON line in holds a cluster, a configuration and pending pods; one JSON line out holds the
// answers. The objects go into the scheduler's own cache and snapshot and into the indexers of its
// informers; the plugins, the framework and SchedulePod are those of k8s.io/kubernetes.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// A question is one cluster and the pods that are asked about, each by itself; or configuration
// documents alone.
type question struct {
	Config    json.RawMessage   `json:"config"`
	Objects   []json.RawMessage `json:"objects"`
	Pods      []json.RawMessage `json:"pods"`
	Documents []string          `json:"documents"`
}

// An answer names nodes by their index in Nodes.
type answer struct {
	Nodes     []string    `json:"nodes"`
	Pods      []podAnswer `json:"pods"`
	Documents []ruling    `json:"documents,omitempty"`
	Error     string      `json:"error,omitempty"`
}

func main() {
	silence()
	metrics.Register()
	if err := evictAtOnce(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func silence() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
}

// evictAtOnce lets preemption end before it answers. Its victims are unknown to the API, which is a
// fake one: nothing is evicted, and nothing goes on in the background.
func evictAtOnce() error {
	asynchronously := map[string]bool{string(features.SchedulerAsyncPreemption): false}
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(asynchronously)
}

func serve(in io.Reader, out io.Writer) error {
	reader := bufio.NewReaderSize(in, 1<<20)
	writer := bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(reply(line)); err != nil {
				return err
			}
			if err := writer.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func reply(line []byte) (given answer) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer func() {
		if panicked := recover(); panicked != nil {
			given = answer{Error: fmt.Sprintf("panic: %v\n%s", panicked, debug.Stack())}
		}
	}()
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: err.Error()}
	}
	if asked.Documents != nil {
		for _, text := range asked.Documents {
			given.Documents = append(given.Documents, judgeDocument(ctx, text))
		}
		return given
	}
	cluster, err := newCluster(ctx, asked.Config, asked.Objects)
	if err != nil {
		return answer{Error: err.Error()}
	}
	given.Nodes = cluster.names
	for _, raw := range asked.Pods {
		pod, err := decodePod(raw)
		if err != nil {
			return answer{Error: err.Error()}
		}
		given.Pods = append(given.Pods, cluster.judge(ctx, pod))
	}
	return given
}
