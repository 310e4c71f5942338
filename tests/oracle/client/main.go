// Command oracle-client calls a Talos node like talosctl, with Talos's Go client, and prints the results.
//
// It takes steps as arguments and runs them in order. Each prints one JSON line; the first that fails ends the run with
// exit code 1. The node may be real, simulated by the lab, or a server of a test.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/client"
)

// settings are the values of the flags. Each step reads its own.
type settings struct {
	address     string
	nodeName    string
	via         string
	talosconfig string
	context     string
	insecure    bool
	fingerprint string
	timeout     time.Duration
	config      string
	mode        string
	dryRun      bool
	image       string
	planes      list
	workers     list
	labels      list
	graceful    bool
	outDir      string
}

// list is a flag with comma-separated values.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(text string) error {
	*l = strings.Split(text, ",")

	return nil
}

// line is the output of a step.
type line struct {
	Step string `json:"step"`
	Node string `json:"node,omitempty"`
	OK   bool   `json:"ok"`
	// Duration in milliseconds.
	Took int64 `json:"took_ms"`
	Saw  any   `json:"saw,omitempty"`
	// Code is the gRPC code of the failure; Unknown if it is not a gRPC error.
	Code  string `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
}

const usage = `usage: oracle-client --address A [flags] STEP...

Steps: version, services, disks, get=TYPE[/ID], machine, apply, bootstrap, wait-ready, health, kubeconfig, events, members,
snapshot, reboot, upgrade, upgrade-lifecycle, reset, wait-maintenance, sleep=DURATION, until=STEP.
With "-" as the only step, steps are read from stdin, one per line.`

func main() {
	steps, s, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle-client:", err)
		os.Exit(64)
	}

	if err := run(steps, s, os.Stdout); err != nil {
		// The line of the failed step is already printed.
		os.Exit(1)
	}
}

func parse(args []string) ([]string, *settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet("oracle-client", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprintln(os.Stderr, usage); flags.PrintDefaults() }
	flags.StringVar(&s.address, "address", "", "the node, as host or host:port; its certificate must bear the host")
	flags.StringVar(&s.nodeName, "node-name", "", "what the node is called in the output")
	flags.StringVar(&s.via, "node", "", "let the node at --address pass calls on to this one")
	flags.StringVar(&s.talosconfig, "talosconfig", "", "who we are")
	flags.StringVar(&s.context, "context", "", "a context of the talosconfig, if not the current one")
	flags.BoolVar(&s.insecure, "insecure", false, "speak to a node in maintenance mode")
	flags.StringVar(&s.fingerprint, "fingerprint", "", "with --insecure: the node's fingerprint, as its console shows it")
	flags.DurationVar(&s.timeout, "timeout", 2*time.Minute, "for each step")
	flags.StringVar(&s.config, "config", "", "apply: the machine config")
	flags.StringVar(&s.mode, "mode", "auto", "apply: auto, reboot, no-reboot, staged or try")
	flags.BoolVar(&s.dryRun, "dry-run", false, "apply: only ask what would happen")
	flags.StringVar(&s.image, "image", "", "upgrade: the installer image")
	flags.Var(&s.planes, "control-planes", "health: addresses, separated by commas")
	flags.Var(&s.workers, "workers", "health: addresses, separated by commas")
	flags.Var(&s.labels, "labels", "reset: partitions to wipe; without any, the whole disk")
	flags.BoolVar(&s.graceful, "graceful", false, "reset: drain and leave etcd first")
	flags.StringVar(&s.outDir, "out", "", "write kubeconfig and snapshot into this folder")

	if err := flags.Parse(args); err != nil {
		return nil, nil, err
	}

	switch {
	case s.address == "":
		return nil, nil, errors.New("--address is missing")
	case !s.insecure && s.talosconfig == "":
		return nil, nil, errors.New("either --talosconfig or --insecure")
	case flags.NArg() == 0:
		return nil, nil, errors.New("no step is named")
	}

	steps := flags.Args()
	if len(steps) == 1 && steps[0] == "-" {
		text, err := io.ReadAll(os.Stdin)
		if err != nil {
			return nil, nil, err
		}

		steps = strings.Fields(string(text))
	}

	for _, step := range steps {
		name, _, _ := strings.Cut(step, "=")
		if known[name] == nil {
			return nil, nil, fmt.Errorf("there is no step %q", name)
		}
	}

	return steps, s, nil
}

func run(steps []string, s *settings, out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)

	c, err := connect(s)
	if err != nil {
		return errors.Join(err, encoder.Encode(line{Step: "connect", Node: s.nodeName, Code: "Unknown", Error: err.Error()}))
	}

	defer c.Close() //nolint:errcheck

	n := &node{settings: s, client: c}

	for _, step := range steps {
		name, argument, _ := strings.Cut(step, "=")
		began := time.Now()
		ctx, cancel := n.context()
		saw, err := known[name](ctx, n, argument)

		cancel()

		printed := line{Step: step, Node: s.nodeName, OK: err == nil, Took: time.Since(began).Milliseconds(), Saw: saw}
		if err != nil {
			printed.Code, printed.Error = client.StatusCode(err).String(), err.Error()
		}

		if err := errors.Join(err, encoder.Encode(printed)); err != nil {
			return err
		}
	}

	return nil
}

// context limits the time of a step, and names the target node if it is not the one that is dialled.
func (n *node) context() (context.Context, context.CancelFunc) {
	ctx := context.Background()
	if n.settings.via != "" {
		ctx = client.WithNode(ctx, n.settings.via)
	}

	return context.WithTimeout(ctx, n.settings.timeout)
}
