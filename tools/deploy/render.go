// Renders a Helm chart without Helm: the same template engine (text/template) and function library
// (sprig), with Helm's own functions include, toYaml and required.
//
//	go run render.go CHART RELEASE [VALUES.yaml ...]
//
// It prints the manifests, each after a line `---`. A file overrides values of the files before it.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	yaml "gopkg.in/yaml.v3"
)

type values = map[string]interface{}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(path string) values {
	text, err := os.ReadFile(path)
	fail(err)
	found := values{}
	fail(yaml.Unmarshal(text, &found))
	return found
}

func merge(into, from values) {
	for key, value := range from {
		old, isOld := into[key].(values)
		added, isNew := value.(values)
		if isOld && isNew {
			merge(old, added)
		} else {
			into[key] = value
		}
	}
}

func toYaml(value interface{}) (string, error) {
	text, err := yaml.Marshal(value)
	return strings.TrimSuffix(string(text), "\n"), err
}

func main() {
	chart, release := os.Args[1], os.Args[2]
	about, given := read(filepath.Join(chart, "Chart.yaml")), read(filepath.Join(chart, "values.yaml"))
	for _, path := range os.Args[3:] {
		merge(given, read(path))
	}
	root := template.New("chart").Option("missingkey=error").Funcs(sprig.TxtFuncMap())
	root.Funcs(template.FuncMap{
		"toYaml": toYaml,
		"include": func(name string, data interface{}) (string, error) {
			var text bytes.Buffer
			err := root.ExecuteTemplate(&text, name, data)
			return text.String(), err
		},
		"required": func(message string, value interface{}) (interface{}, error) {
			if value == nil || value == "" {
				return nil, fmt.Errorf("%s", message)
			}
			return value, nil
		},
	})
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	fail(err)
	sort.Strings(paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		fail(err)
		template.Must(root.New(filepath.Base(path)).Parse(string(text)))
	}
	data := values{
		"Values":  given,
		"Release": values{"Name": release, "Service": "Helm", "Revision": 1, "Namespace": "default"},
		"Chart": values{
			"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"],
		},
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasSuffix(name, ".yaml") {
			var text bytes.Buffer
			fail(root.ExecuteTemplate(&text, name, data))
			fmt.Printf("---\n# %s\n%s\n", name, text.String())
		}
	}
}
