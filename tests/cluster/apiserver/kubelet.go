package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// runKubelet stands for the kubelet of a node: the API server reaches it for the logs of containers and for commands in them, which are
// processes of this machine. It speaks the kubelet's protocol with the kubelet's own code. The argument is its address.
func runKubelet(args []string) {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: apiserver kubelet ADDRESS")
		os.Exit(2)
	}
	listener, err := net.Listen("tcp", args[0])
	if err != nil {
		log.Fatal(err)
	}
	routes := http.NewServeMux()
	routes.HandleFunc("/containerLogs/", containerLogs)
	routes.HandleFunc("/exec/", runCommand)
	server := httptest.NewUnstartedServer(routes)
	server.Listener.Close()
	server.Listener = listener
	server.StartTLS()
	fmt.Println("the kubelet listens at", listener.Addr())
	select {}
}

// containerLogs answers with lines that say what was asked for.
func containerLogs(answer http.ResponseWriter, request *http.Request) {
	fmt.Fprintf(answer, "container %s\nasked for %s\n", strings.TrimPrefix(request.URL.Path, "/containerLogs/"), request.URL.Query().Encode())
}

func runCommand(answer http.ResponseWriter, request *http.Request) {
	path := strings.Split(strings.TrimPrefix(request.URL.Path, "/exec/"), "/")
	container := path[len(path)-1]
	if container == "stopped" {
		http.Error(answer, `container not found ("stopped")`, http.StatusNotFound)
		return
	}
	query := request.URL.Query()
	options := &remotecommand.Options{Stdin: query.Get("input") == "1", Stdout: query.Get("output") == "1", Stderr: query.Get("error") == "1"}
	remotecommand.ServeExec(answer, request, processes{}, path[1], "", container, query["command"], options,
		time.Hour, 30*time.Second, remotecommand.SupportedStreamingProtocols)
}

// processes runs commands as processes.
type processes struct{}

func (processes) ExecInContainer(ctx context.Context, _, _, _ string, command []string, in io.Reader, out, errors_ io.WriteCloser,
	_ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	process := exec.CommandContext(ctx, command[0], command[1:]...)
	process.Stdin, process.Stdout, process.Stderr = in, out, errors_
	err := process.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return err
}
