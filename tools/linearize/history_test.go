package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// Goal: bytes survive the JSON. Method: every byte there and back, and the spellings a recorder may
// choose. Mutation: in UnmarshalJSON take the bytes of text instead of its characters.
func TestBytes(t *testing.T) {
	var all []byte
	for i := 0; i < 256; i++ {
		all = append(all, byte(i))
	}
	text, err := json.Marshal(Bytes(all))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.IndexFunc(text, func(r rune) bool { return r < 0x20 || r > 0x7e }) >= 0 {
		t.Errorf("not plain ASCII: %s", text)
	}
	for spelled, want := range map[string]string{
		string(text): string(all), `""`: "", `"k1"`: "k1", `"\u00ff\u0000\n\""`: "\xff\x00\n\"",
		`"ÿ"`: "\xff",
	} {
		var got Bytes
		if err := json.Unmarshal([]byte(spelled), &got); err != nil || string(got) != want {
			t.Errorf("%s is %q (%v), want %q", spelled, got, err, want)
		}
	}
	for _, bad := range []string{`"\u0100"`, `"€"`, "\"\xff\"", "1", "null", "[]"} {
		var got Bytes
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s is taken for %q", bad, got)
		}
	}
}

// Goal: what is no history is refused, and the line named. Method: one mistake each. Mutation:
// leave out any check in history.go.
func TestBadInput(t *testing.T) {
	const good = `{"client":0,"call":1,"return":2,"op":"put","key":"k","value":"v"}` + "\n"
	if h, err := readHistory(strings.NewReader(good)); err != nil || h.lines != 1 {
		t.Fatal(err)
	}
	for _, bad := range []string{
		``,
		`{"client":0,"call":1,"return":2,"op":"put","key":"k","va`,
		`[]`,
		`{"client":0,"call":1,"return":2,"op":"put","key":"k","value":"v","extra":1}`,
		`{"client":0,"call":1,"return":2,"op":"put","key":"k","value":"v","result":"v"}`,
		`{"client":0,"call":1,"return":2,"op":"put","key":"k"}`,
		`{"client":0,"call":1,"return":2,"op":"put","key":"k","value":null}`,
		`{"client":0,"call":1,"return":2,"op":"put","key":7,"value":"v"}`,
		`{"call":1,"return":2,"op":"delete","key":"k"}`,
		`{"client":-1,"call":1,"return":2,"op":"delete","key":"k"}`,
		`{"client":0,"return":2,"op":"delete","key":"k"}`,
		`{"client":0,"call":3,"return":2,"op":"delete","key":"k"}`,
		`{"client":0,"call":1.5,"return":2,"op":"delete","key":"k"}`,
		`{"client":0,"call":1,"return":2,"status":"fine","op":"delete","key":"k"}`,
		`{"client":0,"call":1,"status":"ok","op":"delete","key":"k"}`,
		`{"client":0,"call":1,"status":"aborted","op":"delete","key":"k"}`,
		`{"client":0,"call":1,"return":2,"op":"erase","key":"k"}`,
		`{"client":0,"call":1,"return":2,"op":"get","key":"k"}`,
		`{"client":0,"call":1,"return":2,"op":"get","key":"k","result":7}`,
		`{"client":0,"call":1,"return":2,"op":"merge","key":"k","operator":"append","operand":7}`,
		`{"client":0,"call":1,"return":2,"op":"merge","key":"k","operator":"add","operand":"7"}`,
		`{"client":0,"call":1,"return":2,"op":"merge","key":"k","operator":"add","operand":null}`,
		`{"client":0,"call":1,"return":2,"op":"merge","key":"k","operator":"max","operand":7}`,
		`{"client":0,"call":1,"return":2,"op":"multiget","keys":["k","l"],"results":["v"]}`,
		`{"client":0,"call":1,"return":2,"op":"multiget","keys":["k"]}`,
		`{"client":0,"call":1,"return":2,"op":"range","begin":"a","end":"b"}`,
		`{"client":0,"call":1,"return":2,"op":"range","begin":"a","limit":-1,"pairs":[]}`,
		`{"client":0,"call":1,"return":2,"op":"range","begin":"a","pairs":[["a"]]}`,
		`{"client":0,"call":1,"return":2,"op":"batch"}`,
		`{"client":0,"call":1,"return":2,"op":"batch","items":[{"op":"get","key":"k"}]}`,
		`{"client":0,"call":1,"return":2,"op":"batch","items":[{"op":"batch","items":[]}]}`,
		`{"client":0,"call":1,"return":2,"op":"batch","items":[{"op":"delete","key":"k","call":1}]}`,
		`{"client":0,"call":1,"return":2,"op":"snapshot","reads":[{"op":"delete","key":"k"}]}`,
		`{"client":0,"call":1,"return":2,"op":"txn","reads":[]}`,
		`{"client":0,"call":1,"return":2,"op":"txn","reads":[{"op":"delete","key":"k"}],"writes":[]}`,
		`{"client":0,"call":1,"return":2,"op":"txn","reads":[],
		  "writes":[{"op":"get","key":"k","result":null}]}`,
	} {
		text := bad
		if bad != "" {
			text = good + bad
		}
		_, err := readHistory(strings.NewReader(text))
		if err == nil {
			t.Errorf("taken: %s", bad)
		} else if bad != "" && !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
