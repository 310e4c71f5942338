// Command oracle answers requests with the results of Talos's machinery module.
//
// It reads one JSON request per line on stdin and writes one JSON answer per line on stdout, in order, so that a test
// can send thousands of cases to one process. It has no logic of its own: all results come from the machinery module that
// it is built against. A rejection is an answer (`error`), not an exit.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// request is the union of all operations; each reads the fields that belong to it.
type request struct {
	Op string `json:"op"`

	// gen
	Contract          string     `json:"contract"`
	Secrets           string     `json:"secrets"`
	ClusterName       string     `json:"cluster_name"`
	Endpoint          string     `json:"endpoint"`
	KubernetesVersion string     `json:"kubernetes_version"`
	Options           genOptions `json:"options"`

	// patch, validate, encode
	Config  string   `json:"config"`
	Patches []string `json:"patches"`
	Mode    string   `json:"mode"`
	Strict  bool     `json:"strict"`

	// secrets
	Bundle string `json:"bundle"`
}

// failure is the answer to a request that Talos or this program rejects.
type failure struct {
	Error string `json:"error"`
	// Panic marks an input on which Talos crashes, so that there is no result to compare with.
	Panic bool `json:"panic,omitempty"`
}

func main() {
	var err error

	switch {
	case len(os.Args) == 1:
		err = serve(os.Stdin, os.Stdout)
	case len(os.Args) > 3 && os.Args[1] == "validate":
		err = validateFiles(os.Args[2], os.Args[3:])
	default:
		err = errors.New("usage: oracle <requests | oracle validate MODE FILE...")
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// validateFiles validates and names every file, for scripts. It fails if Talos rejects one.
func validateFiles(mode string, paths []string) error {
	refused := 0

	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		result, err := validateConfig(&request{Config: string(text), Mode: mode})
		if err != nil {
			return err
		}

		if result.Valid {
			fmt.Println("ok", path, result.Warnings)

			continue
		}

		refused++

		fmt.Println("REFUSED", path, "("+result.Stage+")", result.Error)
	}

	if refused > 0 {
		return fmt.Errorf("%d of %d files are refused in mode %s", refused, len(paths), mode)
	}

	return nil
}

// serve answers requests until the input ends.
func serve(in io.Reader, out io.Writer) error {
	// A bufio.Scanner would limit the length of lines, and configs with inline manifests are long.
	reader := bufio.NewReaderSize(in, 1<<20)
	writer := bufio.NewWriter(out)

	for {
		line, readErr := reader.ReadBytes('\n')
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return readErr
		}

		if line = bytes.TrimSpace(line); len(line) > 0 {
			text, err := encodeAnswer(answer(line))
			if err != nil {
				return err
			}

			if _, err := writer.Write(text); err != nil {
				return err
			}
		}

		// The client may wait for this answer before the next request.
		if err := writer.Flush(); err != nil {
			return err
		}

		if readErr != nil {
			return nil
		}
	}
}

// encodeAnswer writes one line, and leaves <, > and & alone: configs are not HTML.
func encodeAnswer(value any) ([]byte, error) {
	var buf bytes.Buffer

	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)

	if err := encoder.Encode(value); err != nil {
		return nil, err
	}

	return buf.Bytes(), nil
}

// answer returns the answer to a request line, also after a panic.
func answer(line []byte) (result any) {
	defer func() {
		if cause := recover(); cause != nil {
			result = failure{Error: fmt.Sprintf("panic: %v", cause), Panic: true}
		}
	}()

	var req request

	decoder := json.NewDecoder(bytes.NewReader(line))
	// A misspelt option would make a test meaningless, so unknown fields are rejected.
	decoder.DisallowUnknownFields()

	if err := decoder.Decode(&req); err != nil {
		return failure{Error: "bad request: " + err.Error()}
	}

	value, err := dispatch(&req)
	if err != nil {
		return failure{Error: err.Error()}
	}

	return value
}

func dispatch(req *request) (any, error) {
	switch req.Op {
	case "gen":
		return generateConfigs(req)
	case "patch":
		return patchConfig(req)
	case "validate":
		return validateConfig(req)
	case "encode":
		return encodeConfig(req)
	case "secrets":
		return checkSecrets(req)
	case "new_secrets":
		return newSecrets(req)
	case "version":
		return machineryVersion()
	default:
		return nil, fmt.Errorf("bad request: unknown op %q", req.Op)
	}
}

// machineryVersion reports the machinery version that this binary is linked with.
func machineryVersion() (any, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, errors.New("no build info")
	}

	for _, dep := range info.Deps {
		if dep.Path == "github.com/siderolabs/talos/pkg/machinery" {
			return map[string]string{"version": dep.Version}, nil
		}
	}

	return nil, errors.New("machinery is not among the dependencies")
}
