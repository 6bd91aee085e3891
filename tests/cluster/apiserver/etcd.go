package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

// runEtcd serves a single-member etcd on loopback until it is told to stop.
// It does not wait for the disk: the data of a test cluster need not survive a crash of the machine.
func runEtcd(args []string) {
	flags := flag.NewFlagSet("etcd", flag.ExitOnError)
	directory := flags.String("data-dir", "", "where the data is kept")
	clients := flags.String("client-url", "http://127.0.0.1:2379", "where clients connect")
	peers := flags.String("peer-url", "http://127.0.0.1:2380", "where peers would connect")
	_ = flags.Parse(args)

	config := embed.NewConfig()
	config.Dir = *directory
	config.LogLevel = "error"
	config.UnsafeNoFsync = true
	config.QuotaBackendBytes = 4 << 30
	config.ListenClientUrls = []url.URL{mustParse(*clients)}
	config.AdvertiseClientUrls = config.ListenClientUrls
	config.ListenPeerUrls = []url.URL{mustParse(*peers)}
	config.AdvertisePeerUrls = config.ListenPeerUrls
	config.InitialCluster = config.InitialClusterFromName(config.Name)

	server, err := embed.StartEtcd(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd cannot start:", err)
		os.Exit(1)
	}
	defer server.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	select {
	case <-stop:
	case err := <-server.Err():
		fmt.Fprintln(os.Stderr, "etcd failed:", err)
	}
}

func mustParse(text string) url.URL {
	parsed, err := url.Parse(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return *parsed
}
