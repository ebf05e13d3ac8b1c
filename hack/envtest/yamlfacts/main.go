// Reads a list of YAML documents as facts, and writes it again with what Kubernetes' YAML reader makes of
// each: the JSON it becomes, or that it is refused. From hack/envtest:
//
//	go run ./yamlfacts < facts.json > new.json
package main

import (
	"encoding/json"
	"log"
	"os"

	"sigs.k8s.io/yaml"
)

type fact struct {
	YAML    string `json:"yaml"`
	JSON    string `json:"json,omitempty"`
	Refused bool   `json:"refused,omitempty"`
}

func main() {
	var facts []fact
	if err := json.NewDecoder(os.Stdin).Decode(&facts); err != nil {
		log.Fatal(err)
	}
	for i := range facts {
		text, err := yaml.YAMLToJSON([]byte(facts[i].YAML))
		facts[i].JSON, facts[i].Refused = string(text), err != nil
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	if err := out.Encode(facts); err != nil {
		log.Fatal(err)
	}
}
