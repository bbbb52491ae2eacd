package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"

	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"

	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	configv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// A ruling is what becomes of a KubeSchedulerConfiguration: the stage that refuses it, if any does,
// what is said, and which fields are blamed where they are named. What is accepted is given back
// complete, with the plugins of each profile in their final order.
type ruling struct {
	Stage    string          `json:"stage"`
	Problems []string        `json:"problems,omitempty"`
	Fields   []string        `json:"fields,omitempty"`
	Complete json.RawMessage `json:"complete,omitempty"`
}

// judgeDocument takes the steps of a start: decode, validate, build.
func judgeDocument(ctx context.Context, text string) ruling {
	document, err := decodeDocument(text)
	if err != nil {
		return ruling{Stage: "decode", Problems: each(err)}
	}
	if err := validation.ValidateKubeSchedulerConfiguration(document); err != nil {
		return ruling{Stage: "validate", Problems: each(err), Fields: blamed(err)}
	}
	if err := build(ctx, document); err != nil {
		return ruling{Stage: "build", Problems: each(err), Fields: blamed(err)}
	}
	complete, err := encodeDocument(document)
	if err != nil {
		return ruling{Stage: "encode", Problems: each(err)}
	}
	return ruling{Stage: "accepted", Complete: complete}
}

func decodeDocument(text string) (*config.KubeSchedulerConfiguration, error) {
	decoded, kind, err := configscheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, err
	}
	document, ok := decoded.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s: ", kind)
	}
	document.APIVersion = kind.GroupVersion().String()
	return document, nil
}

func encodeDocument(document *config.KubeSchedulerConfiguration) ([]byte, error) {
	info, ok := runtime.SerializerInfoForMediaType(configscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return nil, errors.New("no serializer for JSON")
	}
	return runtime.Encode(configscheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion), document)
}

// build makes the scheduler, as a start would, and replaces the plugins of each profile by those that
// were made.
func build(ctx context.Context, document *config.KubeSchedulerConfiguration) error {
	client := fake.NewClientset()
	made, err := scheduler.New(ctx, client, informers.NewSharedInformerFactory(client, 0), nil,
		profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})),
		scheduler.WithComponentConfigVersion(document.APIVersion),
		scheduler.WithProfiles(document.Profiles...),
		scheduler.WithPercentageOfNodesToScore(document.PercentageOfNodesToScore),
		scheduler.WithExtenders(document.Extenders...),
		scheduler.WithParallelism(document.Parallelism),
	)
	if err != nil {
		return err
	}
	for index := range document.Profiles {
		asked := &document.Profiles[index]
		asked.Plugins = made.Profiles[asked.SchedulerName].ListPlugins()
	}
	return nil
}

func each(err error) (problems []string) {
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, one := range strict.Errors() {
			problems = append(problems, one.Error())
		}
		return problems
	}
	for _, one := range leaves(err) {
		problems = append(problems, one.Error())
	}
	sort.Strings(problems)
	return problems
}

func blamed(err error) (fields []string) {
	for _, one := range leaves(err) {
		var blame *field.Error
		if errors.As(one, &blame) {
			fields = append(fields, blame.Field)
		}
	}
	sort.Strings(fields)
	return fields
}

func leaves(err error) []error {
	var many utilerrors.Aggregate
	if !errors.As(err, &many) {
		return []error{err}
	}
	return utilerrors.Flatten(many).Errors()
}
