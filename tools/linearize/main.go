// Command linearize checks recorded histories of a key-value store for linearizability.
//
//	linearize [flags] FILE|FOLDER...
//
// Each file is one history in the format of README.md; of a folder, all files *.jsonl are taken.
// For a history that is not linearizable it prints the smallest violating part that it found and
// writes a page that shows it to FILE.html. Exit status: 0 all are linearizable, 1 one is not or
// could not be decided in time, 2 bad input.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"time"
)

const (
	exitOk = iota
	exitViolation
	exitBadInput
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errors io.Writer) int {
	flags := flag.NewFlagSet("linearize", flag.ContinueOnError)
	flags.SetOutput(errors)
	timeout := flags.Duration("timeout", 10*time.Second, "time for each history")
	memory := flags.Int("memory", 1024, "MiB for each history, about")
	jobs := flags.Int("jobs", runtime.GOMAXPROCS(0), "histories checked at a time")
	if err := flags.Parse(args); err != nil {
		return exitBadInput
	}
	files, err := listFiles(flags.Args())
	if err == nil && (*jobs < 1 || *memory < 1 || *timeout <= 0) {
		err = fmt.Errorf("a limit is not positive")
	}
	if err != nil {
		fmt.Fprintln(errors, "linearize:", err)
		return exitBadInput
	}
	start := time.Now()
	reports := checkFiles(files, limits{*timeout, *memory << 20}, *jobs)
	var total report
	for i := range reports {
		fmt.Fprint(out, reports[i].text)
		total.add(&reports[i])
	}
	fmt.Fprintf(out,
		"linearize: %d histories, %d operations, %.1f s: %d not linearizable, %d unknown, %d unread\n",
		len(files), total.operations, time.Since(start).Seconds(), total.violating, total.unknown,
		total.unread)
	switch {
	case total.unread > 0:
		return exitBadInput
	case total.violating+total.unknown > 0:
		return exitViolation
	}
	return exitOk
}

// listFiles replaces folders by their histories. That there are none is an error: a check of
// nothing must not pass.
func listFiles(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		entries, err := os.ReadDir(arg)
		if err != nil {
			return nil, err
		}
		before := len(files)
		for _, entry := range entries {
			if !entry.IsDir() && strings.HasSuffix(entry.Name(), ".jsonl") {
				files = append(files, filepath.Join(arg, entry.Name()))
			}
		}
		if len(files) == before {
			return nil, fmt.Errorf("%s: no *.jsonl in it", arg)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no histories; usage: linearize [flags] FILE|FOLDER")
	}
	return files, nil
}

type report struct {
	text                                   string
	operations, violating, unknown, unread int
}

func (r *report) add(other *report) {
	r.operations += other.operations
	r.violating += other.violating
	r.unknown += other.unknown
	r.unread += other.unread
}

// checkFiles checks several files at a time; the reports come in the order of the files.
func checkFiles(files []string, l limits, jobs int) []report {
	reports := make([]report, len(files))
	next := make(chan int)
	var workers sync.WaitGroup
	for i := 0; i < jobs; i++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for i := range next {
				reports[i] = checkFile(files[i], l)
			}
		}()
	}
	for i := range files {
		next <- i
	}
	close(next)
	workers.Wait()
	return reports
}

func checkFile(path string, l limits) report {
	file, err := os.Open(path)
	if err != nil {
		return report{unread: 1, text: fmt.Sprintln(err)}
	}
	defer file.Close()
	h, err := readHistory(file)
	if err != nil {
		return report{unread: 1, text: fmt.Sprintf("%s: %v\n", path, err)}
	}
	defer func() { // the search contradicts itself
		if bug := recover(); bug != nil {
			panic(fmt.Sprintf("%s: %v", path, bug))
		}
	}()
	found := report{operations: h.lines}
	switch r := check(h, l); r.verdict {
	case unknown:
		found.unknown = 1
		found.text = fmt.Sprintf("%s: unknown: not decided within the limits\n", path)
	case violating:
		found.violating = 1
		page := strings.TrimSuffix(path, ".jsonl") + ".html"
		found.text = path + ": not linearizable\n" + r.violation.describe()
		if err := writePage(page, r.violation, l); err != nil {
			found.text += fmt.Sprintf("  no page: %v\n", err)
		} else {
			found.text += "  page: " + page + "\n"
		}
	}
	return found
}

// describe lists the last operations before the violation shows.
func (v *violation) describe() string {
	const most = 24
	keys := make([]string, 0, most)
	for i, key := range v.keys {
		if i == most {
			keys = append(keys, "...")
			break
		}
		keys = append(keys, show(key))
	}
	text := fmt.Sprintf("  keys %s, %d operations; what line %d returns cannot be explained",
		strings.Join(keys, " "), len(v.ops), v.cause.line)
	if v.midway {
		text += ", whatever the store held before them"
	}
	if !v.confirmed {
		text += " (porcupine did not finish)"
	}
	text += ":\n"
	ops := append([]operation(nil), v.ops...)
	sort.SliceStable(ops, func(i, j int) bool { return ops[i].call < ops[j].call })
	if len(ops) > most {
		text += fmt.Sprintf("  ... %d earlier\n", len(ops)-most)
		ops = ops[len(ops)-most:]
	}
	for i := range ops {
		op, ret := &ops[i], "?"
		if !op.optional {
			ret = fmt.Sprint(op.ret)
		}
		text += fmt.Sprintf("  line %d, client %d, %d to %s: %s\n", op.line, op.client, op.call, ret,
			op.describe())
	}
	return text
}

func writePage(path string, v *violation, l limits) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(file)
	err = v.visualize(l, buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
