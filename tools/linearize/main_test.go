package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	goodHistory = `{"client":0,"call":1,"return":2,"op":"put","key":"x","value":"1"}
{"client":1,"call":3,"return":4,"op":"get","key":"x","result":"1"}
`
	badHistory = `{"client":0,"call":1,"return":2,"op":"put","key":"<x>","value":"1"}
{"client":1,"call":3,"return":4,"op":"get","key":"<x>","result":"7"}
{"client":0,"call":1,"return":2,"op":"put","key":"y","value":"1"}
`
)

// Goal: the exit status, the summary and the page are as documented. Method: run the command on
// folders of good, bad and broken histories. Mutation: return 0 when nothing was checked.
func TestCommand(t *testing.T) {
	folder := func(histories ...string) string {
		dir := t.TempDir()
		for i, text := range histories {
			name := filepath.Join(dir, string(rune('a'+i))+".jsonl")
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	good, bad := folder(goodHistory, goodHistory), folder(goodHistory, badHistory)
	for _, c := range []struct {
		name string
		want int
		args []string
		say  string
	}{
		{"good folder", exitOk, []string{good},
			`^linearize: 2 histories, 4 operations, \d+\.\d s: 0 not linearizable, 0 unknown, 0 unread\n$`},
		{"bad folder", exitViolation, []string{"-jobs=1", bad}, `b\.jsonl: not linearizable\n` +
			`  keys "<x>", 2 operations; what line 2 returns cannot be explained:\n` +
			`  line 1, client 0, 1 to 2: put "<x>"="1"\n  line 2, client 1, 3 to 4: "<x>" is "7"\n`},
		{"files", exitViolation, []string{good + "/a.jsonl", bad + "/b.jsonl"},
			`\nlinearize: 2 histories, 5 operations, .*: 1 not linearizable,`},
		{"broken", exitBadInput, []string{folder(badHistory, "{}")}, `b\.jsonl: line 1: .*\n` +
			`linearize: 2 histories, .*: 1 not linearizable, 0 unknown, 1 unread\n$`},
		{"empty history", exitBadInput, []string{folder("")}, `no operations`},
		{"empty folder", exitBadInput, []string{t.TempDir()}, `no \*\.jsonl`},
		{"missing file", exitBadInput, []string{"missing.jsonl"}, `missing\.jsonl`},
		{"nothing", exitBadInput, nil, `usage`},
		{"bad flag", exitBadInput, []string{"-jobs=0", good}, `not positive`},
		{"unknown flag", exitBadInput, []string{"-no"}, `-no`},
	} {
		var out bytes.Buffer
		if got := run(c.args, &out, &out); got != c.want {
			t.Errorf("%s: exit %d, want %d", c.name, got, c.want)
		}
		if !regexp.MustCompile(c.say).Match(out.Bytes()) {
			t.Errorf("%s: says %s", c.name, &out)
		}
	}
	page, err := os.ReadFile(filepath.Join(bad, "b.html"))
	if err != nil || !strings.Contains(string(page), `line 2, client 1`) {
		t.Errorf("no page: %v", err)
	}
	if _, err := os.Stat(filepath.Join(bad, "a.html")); err == nil {
		t.Error("a page of a good history")
	}
}

// Goal: the examples in README.md are a history. Method: check them. Mutation: rename a field.
func TestReadmeExamples(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "{") {
			lines = append(lines, line)
		}
	}
	if len(lines) < len(forms) {
		t.Errorf("%d examples of %d operations", len(lines), len(forms))
	}
	if r := check(mustRead(t, strings.Join(lines, "\n")), testLimits); r.verdict != linearizable {
		t.Errorf("verdict %d", r.verdict)
	}
}
