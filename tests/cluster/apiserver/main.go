// Command apiserver runs the parts of Kubernetes that the end-to-end suite needs, from their Go modules:
// etcd and the API server in one process, the controllers in another, and kubectl as a third command.
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
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: apiserver etcd|kube-apiserver|kube-controller-manager|kubectl [flags]")
	os.Exit(2)
}
