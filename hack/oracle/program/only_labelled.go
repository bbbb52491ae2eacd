package main

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	onlyLabelledName  = "OnlyLabelled"
	onlyLabelledLabel = "only"
)

// onlyLabelled narrows a pod to the nodes that its label names, joined by underscores. It comes with
// the oracle: of the default plugins one alone narrows, and what the framework says when several do,
// or when nothing is left, would never be compared.
type onlyLabelled struct{}

func newOnlyLabelled(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return onlyLabelled{}, nil
}

func (onlyLabelled) Name() string { return onlyLabelledName }

func (onlyLabelled) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	label, told := pod.Labels[onlyLabelledLabel]
	if !told {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	names := sets.New[string]()
	for _, name := range strings.Split(label, "_") {
		if name != "" {
			names.Insert(name)
		}
	}
	return &fwk.PreFilterResult{NodeNames: names}, nil
}

func (onlyLabelled) PreFilterExtensions() fwk.PreFilterExtensions { return nil }
