// Command apiserver runs the parts of Kubernetes that the end-to-end suite needs, from their Go modules:
// etcd, the API server, the controllers, a kubelet without containers, and kubectl; and the informers that stand for all controllers written in Go.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	command := os.Args[1]
	os.Args = append([]string{command}, os.Args[2:]...)
	switch command {
	case "etcd":
		runEtcd(os.Args[1:])
	case "kube-apiserver":
		runAPIServer()
	case "kube-controller-manager":
		runControllers()
	case "kubectl":
		runKubectl()
	case "kubelet":
		runKubelet(os.Args[1:])
	case "informer":
		runInformer(os.Args[1:])
	case "pages":
		runPages(os.Args[1:])
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: apiserver etcd|kube-apiserver|kube-controller-manager|kubelet|kubectl|informer|pages [flags]")
	os.Exit(2)
}
