package main

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

const defaultConfig = `{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration"}`

// A cluster is a scheduler that knows the given objects, and the plugins of one profile.
type cluster struct {
	scheduler *scheduler.Scheduler
	framework framework.Framework
	profile   config.KubeSchedulerProfile
	plugins   map[string]fwk.Plugin
	nodes     []fwk.NodeInfo
	names     []string
	index     map[string]int
	pods      cache.Indexer
}

func newCluster(ctx context.Context, rawConfig json.RawMessage, raws []json.RawMessage) (*cluster, error) {
	asked, err := decodeProfile(rawConfig)
	if err != nil {
		return nil, err
	}
	made := &cluster{profile: asked, plugins: map[string]fwk.Plugin{}, index: map[string]int{}}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	made.pods = factory.Core().V1().Pods().Informer().GetIndexer()
	queueFactory := informers.NewSharedInformerFactory(client, 0)
	if err := made.buildScheduler(ctx, client, queueFactory); err != nil {
		return nil, err
	}
	snapshot := made.scheduler.Profiles["bare"].SnapshotSharedLister().(*internalcache.Snapshot)
	if err := made.buildFramework(ctx, client, factory, snapshot); err != nil {
		return nil, err
	}
	if err := made.feed(ctx, factory, queueFactory, raws); err != nil {
		return nil, err
	}
	if err := made.scheduler.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		return nil, err
	}
	return made, made.listNodes(snapshot)
}

func decodeProfile(raw json.RawMessage) (config.KubeSchedulerProfile, error) {
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage(defaultConfig)
	}
	decoded, _, err := configscheme.Codecs.UniversalDecoder().Decode(raw, nil, nil)
	if err != nil {
		return config.KubeSchedulerProfile{}, err
	}
	document, ok := decoded.(*config.KubeSchedulerConfiguration)
	if !ok || len(document.Profiles) == 0 {
		return config.KubeSchedulerProfile{}, fmt.Errorf("no KubeSchedulerConfiguration: %T", decoded)
	}
	return document.Profiles[0], nil
}

// buildScheduler makes the scheduler whose cache, queue and SchedulePod are used. Its own profile is
// bare: plugins are registered in the framework below, where they can be asked one by one.
func (c *cluster) buildScheduler(ctx context.Context, client *fake.Clientset, factory informers.SharedInformerFactory) error {
	bare := config.KubeSchedulerProfile{
		SchedulerName: "bare",
		Plugins: &config.Plugins{
			QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: "PrioritySort"}}},
			Bind:      config.PluginSet{Enabled: []config.Plugin{{Name: "DefaultBinder"}}},
		},
	}
	everyNode := int32(100)
	var err error
	c.scheduler, err = scheduler.New(ctx, client, factory, nil,
		profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})),
		scheduler.WithProfiles(bare),
		scheduler.WithPercentageOfNodesToScore(&everyNode),
		scheduler.WithParallelism(1),
	)
	return err
}

func (c *cluster) buildFramework(ctx context.Context, client *fake.Clientset, factory informers.SharedInformerFactory, snapshot *internalcache.Snapshot) error {
	devices, err := deviceManager(ctx, client, factory)
	if err != nil {
		return err
	}
	registry := frameworkruntime.Registry{}
	known := plugins.NewInTreeRegistry()
	if err := known.Register(onlyLabelledName, newOnlyLabelled); err != nil {
		return err
	}
	for name, make := range known {
		registry[name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := make(ctx, args, handle)
			c.plugins[name] = plugin
			return plugin, err
		}
	}
	built, err := frameworkruntime.NewFramework(ctx, registry, &c.profile,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithParallelism(1),
		frameworkruntime.WithSharedDRAManager(devices),
		frameworkruntime.WithPodNominator(c.scheduler.SchedulingQueue),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
	)
	c.framework = built
	return err
}

// deviceManager makes what DynamicResources reads, and scorers ask about extended resources that
// devices back. It hears of no claims and slices: pods with claims are not compared.
func deviceManager(ctx context.Context, client *fake.Clientset, factory informers.SharedInformerFactory) (fwk.SharedDRAManager, error) {
	slices, err := tracker.StartTracker(ctx, tracker.Options{
		EnableConsumableCapacity: true,
		SliceInformer:            factory.Resource().V1().ResourceSlices(),
		KubeClient:               client,
	})
	if err != nil {
		return nil, err
	}
	claims := factory.Resource().V1().ResourceClaims().Informer()
	assumed := assumecache.NewAssumeCache(klog.FromContext(ctx), claims, "ResourceClaim", "", nil)
	return dynamicresources.NewDRAManager(ctx, assumed, slices, factory), nil
}

// feed gives every object to whoever would hear of it from an informer.
func (c *cluster) feed(ctx context.Context, factory, queueFactory informers.SharedInformerFactory, raws []json.RawMessage) error {
	logger := klog.FromContext(ctx)
	for _, raw := range raws {
		object, err := decode(raw)
		if err != nil {
			return err
		}
		indexer := indexerOf(object, factory)
		if indexer == nil {
			return fmt.Errorf("nobody reads a %T", object)
		}
		if err := indexer.Add(object); err != nil {
			return err
		}
		switch typed := object.(type) {
		case *v1.Node:
			c.index[typed.Name] = len(c.names)
			c.names = append(c.names, typed.Name)
			c.scheduler.Cache.AddNode(logger, typed)
		case *v1.Pod:
			if err := queueFactory.Core().V1().Pods().Informer().GetIndexer().Add(typed); err != nil {
				return err
			}
			if typed.Spec.NodeName != "" {
				err = c.scheduler.Cache.AddPod(logger, typed)
			} else {
				c.scheduler.SchedulingQueue.Add(ctx, typed)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func indexerOf(object runtime.Object, factory informers.SharedInformerFactory) cache.Indexer {
	core, apps, storage := factory.Core().V1(), factory.Apps().V1(), factory.Storage().V1()
	switch object.(type) {
	case *v1.Node:
		return core.Nodes().Informer().GetIndexer()
	case *v1.Pod:
		return core.Pods().Informer().GetIndexer()
	case *v1.Namespace:
		return core.Namespaces().Informer().GetIndexer()
	case *v1.Service:
		return core.Services().Informer().GetIndexer()
	case *v1.ReplicationController:
		return core.ReplicationControllers().Informer().GetIndexer()
	case *v1.PersistentVolumeClaim:
		return core.PersistentVolumeClaims().Informer().GetIndexer()
	case *v1.PersistentVolume:
		return core.PersistentVolumes().Informer().GetIndexer()
	case *appsv1.ReplicaSet:
		return apps.ReplicaSets().Informer().GetIndexer()
	case *appsv1.StatefulSet:
		return apps.StatefulSets().Informer().GetIndexer()
	case *storagev1.StorageClass:
		return storage.StorageClasses().Informer().GetIndexer()
	case *storagev1.CSINode:
		return storage.CSINodes().Informer().GetIndexer()
	case *storagev1.CSIDriver:
		return storage.CSIDrivers().Informer().GetIndexer()
	case *storagev1.CSIStorageCapacity:
		return storage.CSIStorageCapacities().Informer().GetIndexer()
	case *storagev1.VolumeAttachment:
		return storage.VolumeAttachments().Informer().GetIndexer()
	case *policyv1.PodDisruptionBudget:
		return factory.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer()
	}
	return nil
}

func (c *cluster) listNodes(snapshot *internalcache.Snapshot) error {
	c.nodes = make([]fwk.NodeInfo, len(c.names))
	for index, name := range c.names {
		info, err := snapshot.Get(name)
		if err != nil {
			return err
		}
		c.nodes[index] = info
	}
	return nil
}

func decode(raw []byte) (runtime.Object, error) {
	object, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	return object, err
}

func decodePod(raw []byte) (*v1.Pod, error) {
	object, err := decode(raw)
	if err != nil {
		return nil, err
	}
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("not a pod: %T", object)
	}
	return pod, nil
}
