package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"
)

// told is one line of what an informer tells.
type told struct {
	Event    string            `json:"event"`
	Name     string            `json:"name,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Revision string            `json:"revision,omitempty"`
	Count    int               `json:"count,omitempty"`
	Initial  bool              `json:"initial,omitempty"`
}

// teller prints lines of JSON, one at a time.
type teller struct{ sync.Mutex }

func (t *teller) tell(line told) {
	t.Lock()
	defer t.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(line)
}

func (t *teller) object(event string, object any, initial bool) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		event, object = event+"-unseen", gone.Obj
	}
	if accessor, err := meta.Accessor(object); err == nil {
		t.tell(told{event, accessor.GetName(), accessor.GetLabels(), accessor.GetResourceVersion(), 0, initial})
	}
}

// runInformer watches one resource as controllers in Go do, and prints a line for everything that its informer tells.
func runInformer(args []string) {
	flags := flag.NewFlagSet("informer", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the access to the server")
	client := flags.String("client", "typed", "typed, dynamic or metadata")
	namespace := flags.String("namespace", "", "the namespace; all if there is none")
	resource := flags.String("resource", "configmaps.v1.", "the resource, as plural.version.group")
	resync := flags.Duration("resync", 0, "how often everything is told again")
	klog.InitFlags(flags)
	_ = flags.Parse(args)

	kind, _ := schema.ParseResourceArg(*resource)
	if kind == nil {
		fail(fmt.Errorf("%q is no resource", *resource))
	}
	config := access(*kubeconfig)
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()

	informer := informerOf(config, *client, *kind, *namespace, *resync)
	out := &teller{}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, initial bool) { out.object("add", object, initial) },
		UpdateFunc: func(_, object any) { out.object("update", object, false) },
		DeleteFunc: func(object any) { out.object("delete", object, false) },
	})
	fail(err)
	go informer.Run(stop.Done())
	if !cache.WaitForCacheSync(stop.Done(), informer.HasSynced) {
		os.Exit(1)
	}
	out.tell(told{Event: "synced", Count: len(informer.GetStore().List())})
	<-stop.Done()
}

func informerOf(config *rest.Config, client string, kind schema.GroupVersionResource, namespace string, resync time.Duration) cache.SharedIndexInformer {
	switch client {
	case "typed":
		// As most controllers do: protobuf where the server has it.
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		clients, err := kubernetes.NewForConfig(config)
		fail(err)
		factory := informers.NewSharedInformerFactoryWithOptions(clients, resync, informers.WithNamespace(namespace))
		informer, err := factory.ForResource(kind)
		fail(err)
		return informer.Informer()
	case "dynamic":
		clients, err := dynamic.NewForConfig(config)
		fail(err)
		return dynamicinformer.NewFilteredDynamicSharedInformerFactory(clients, resync, namespace, nil).ForResource(kind).Informer()
	case "metadata":
		clients, err := metadata.NewForConfig(config)
		fail(err)
		return metadatainformer.NewFilteredSharedInformerFactory(clients, resync, namespace, nil).ForResource(kind).Informer()
	default:
		fail(fmt.Errorf("unknown client %q", client))
		return nil
	}
}

// runPages lists config maps in pages, and prints a line for each page and each object.
func runPages(args []string) {
	flags := flag.NewFlagSet("pages", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the access to the server")
	namespace := flags.String("namespace", "", "the namespace")
	limit := flags.Int64("limit", 2, "the size of a page")
	_ = flags.Parse(args)

	clients, err := kubernetes.NewForConfig(access(*kubeconfig))
	fail(err)
	out := &teller{}
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, err := clients.CoreV1().ConfigMaps(*namespace).List(ctx, options)
		if err == nil {
			out.tell(told{Event: "page", Count: len(page.Items)})
		}
		return page, err
	})
	pages.PageSize = *limit
	fail(pages.EachListItem(context.Background(), metav1.ListOptions{}, func(object runtime.Object) error {
		out.object("item", object, false)
		return nil
	}))
}

func access(kubeconfig string) *rest.Config {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	fail(err)
	config.QPS, config.Burst = 200, 400
	return config
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
