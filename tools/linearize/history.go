package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
)

// A history is read in two layers: line and item are the JSON as README.md defines it; operation
// and step are what remains of it for the model. Every operation, whatever its kind, becomes a list
// of steps that happen together at one moment between call and ret.

type stepKind uint8

const (
	stepRead   stepKind = iota // the key holds value, or nothing if value is nil
	stepWrite                  // the key gets value, or is deleted if value is nil
	stepAppend                 // the key's value grows by "," and value; a missing key gets value
	stepAdd                    // the key's 64-bit counter grows by delta
	stepScan                   // becomes one stepRead for each key it covers
	stepNever                  // a result that no state explains
)

type step struct {
	kind  stepKind
	key   string
	value *string
	delta int64
	scan  *scan
}

func (s *step) reads() bool { return s.kind == stepRead || s.kind == stepNever }

func (s *step) merges() bool { return s.kind == stepAppend || s.kind == stepAdd }

type scan struct {
	begin string
	end   *string
	limit int
	pairs [][]Bytes
}

type operation struct {
	line, client int
	call, ret    int64
	optional     bool // may have happened or not, at any time after call
	steps        []step
}

// neverReturned is the return time of an operation with an unknown outcome.
const neverReturned = math.MaxInt64

type history struct {
	lines int         // operations in the file
	ops   []operation // those that tell something or may have changed something
}

// Bytes is a byte string. In JSON each character from U+0000 to U+00FF stands for one byte.
type Bytes string

// UnmarshalJSON reads the characters of a JSON string as bytes.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	if len(data) < 2 || data[0] != '"' {
		return fmt.Errorf("%s where a string is wanted", data)
	}
	plain := true
	for _, c := range data[1 : len(data)-1] {
		plain = plain && c < 0x80 && c != '\\'
	}
	if plain {
		*b = Bytes(data[1 : len(data)-1])
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	raw := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff {
			return fmt.Errorf("%q is no byte: use \\u0000 to \\u00ff", r)
		}
		raw = append(raw, byte(r))
	}
	*b = Bytes(raw)
	return nil
}

// MarshalJSON writes one character for each byte.
func (b Bytes) MarshalJSON() ([]byte, error) {
	out := []byte{'"'}
	for i := 0; i < len(b); i++ {
		if c := b[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			out = append(out, fmt.Sprintf("\\u%04x", c)...)
		} else {
			out = append(out, c)
		}
	}
	return append(out, '"'), nil
}

type line struct {
	Client *int   `json:"client"`
	Call   *int64 `json:"call"`
	Return *int64 `json:"return,omitempty"`
	Status string `json:"status,omitempty"`
	item
}

// An item is an operation without client and times; batches, snapshots and transactions have lists
// of them. Result is raw because null and nothing differ in it.
type item struct {
	Op       string          `json:"op"`
	Key      *Bytes          `json:"key,omitempty"`
	Value    *Bytes          `json:"value,omitempty"`
	Operator string          `json:"operator,omitempty"`
	Operand  json.RawMessage `json:"operand,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Keys     []Bytes         `json:"keys,omitempty"`
	Results  []*Bytes        `json:"results,omitempty"`
	Begin    *Bytes          `json:"begin,omitempty"`
	End      *Bytes          `json:"end,omitempty"`
	Limit    *int            `json:"limit,omitempty"`
	Pairs    *[][]Bytes      `json:"pairs,omitempty"`
	Items    []item          `json:"items,omitempty"`
	Reads    []item          `json:"reads,omitempty"`
	Writes   []item          `json:"writes,omitempty"`
}

// A field is a bit, so that a set of fields is a number.
type field uint16

const (
	fieldKey field = 1 << iota
	fieldValue
	fieldOperator
	fieldOperand
	fieldResult
	fieldKeys
	fieldResults
	fieldBegin
	fieldEnd
	fieldLimit
	fieldPairs
	fieldItems
	fieldReads
	fieldWrites
)

// A form tells the fields of an operation: needed always, needed if its outcome is known, allowed.
type form struct{ needed, outcome, allowed field }

var forms = map[string]form{
	"put":      {needed: fieldKey | fieldValue},
	"delete":   {needed: fieldKey},
	"merge":    {needed: fieldKey | fieldOperator | fieldOperand},
	"get":      {needed: fieldKey, outcome: fieldResult},
	"multiget": {needed: fieldKeys, outcome: fieldResults},
	"range":    {needed: fieldBegin, outcome: fieldPairs, allowed: fieldEnd | fieldLimit},
	"batch":    {needed: fieldItems},
	"snapshot": {needed: fieldReads},
	"txn":      {needed: fieldReads | fieldWrites},
}

func (it *item) fields() field {
	var set field
	for i, present := range [...]bool{it.Key != nil, it.Value != nil, it.Operator != "",
		it.Operand != nil, it.Result != nil, it.Keys != nil, it.Results != nil, it.Begin != nil,
		it.End != nil, it.Limit != nil, it.Pairs != nil, it.Items != nil, it.Reads != nil,
		it.Writes != nil} {
		if present {
			set |= 1 << i
		}
	}
	return set
}

var (
	allItems   = []string{"put", "delete", "merge", "get", "multiget", "range"}
	readItems  = allItems[3:]
	writeItems = allItems[:3]
)

// steps turns an item into steps. known: its outcome is, so that results must be there.
func (it *item) steps(known bool) ([]step, error) {
	want, ok := forms[it.Op]
	if !ok {
		return nil, fmt.Errorf("unknown op %q", it.Op)
	}
	fields := it.fields()
	if extra := fields &^ (want.needed | want.outcome | want.allowed); extra != 0 {
		return nil, fmt.Errorf("%s has a field of another op", it.Op)
	}
	if fields&want.needed != want.needed || known && fields&want.outcome != want.outcome {
		return nil, fmt.Errorf("%s lacks a field", it.Op)
	}
	switch it.Op {
	case "put":
		return []step{{kind: stepWrite, key: string(*it.Key), value: it.Value.text()}}, nil
	case "delete":
		return []step{{kind: stepWrite, key: string(*it.Key)}}, nil
	case "merge":
		return it.merge()
	case "get":
		if it.Result == nil {
			return nil, nil
		}
		var value *Bytes
		if err := json.Unmarshal(it.Result, &value); err != nil {
			return nil, err
		}
		return []step{{kind: stepRead, key: string(*it.Key), value: value.text()}}, nil
	case "multiget":
		return it.multiget()
	case "range":
		return it.scan()
	case "batch":
		return joined(it.Items, allItems, known, nil)
	case "snapshot":
		return joined(it.Reads, readItems, known, nil)
	}
	reads, err := joined(it.Reads, readItems, known, nil)
	if err != nil {
		return nil, err
	}
	return joined(it.Writes, writeItems, known, reads)
}

func (b *Bytes) text() *string {
	if b == nil {
		return nil
	}
	text := string(*b)
	return &text
}

func (it *item) merge() ([]step, error) {
	found := step{key: string(*it.Key)}
	var err error
	switch it.Operator {
	case "append":
		var operand Bytes
		found.kind, err = stepAppend, operand.UnmarshalJSON(it.Operand)
		found.value = operand.text()
	case "add":
		found.kind, err = stepAdd, json.Unmarshal(it.Operand, &found.delta)
		if bytes.Equal(it.Operand, []byte("null")) {
			err = errors.New("add needs a number")
		}
	default:
		err = fmt.Errorf("unknown operator %q", it.Operator)
	}
	return []step{found}, err
}

func (it *item) multiget() ([]step, error) {
	if it.Results == nil {
		return nil, nil
	}
	if len(it.Keys) != len(it.Results) {
		return nil, fmt.Errorf("%d keys, %d results", len(it.Keys), len(it.Results))
	}
	var found []step
	for i, key := range it.Keys {
		found = append(found, step{kind: stepRead, key: string(key), value: it.Results[i].text()})
	}
	return found, nil
}

func (it *item) scan() ([]step, error) {
	if it.Pairs == nil {
		return nil, nil
	}
	found := scan{begin: string(*it.Begin), end: it.End.text(), pairs: *it.Pairs}
	if it.Limit != nil {
		if found.limit = *it.Limit; found.limit < 0 {
			return nil, fmt.Errorf("limit %d", found.limit)
		}
	}
	for _, pair := range found.pairs {
		if len(pair) != 2 {
			return nil, fmt.Errorf("a pair of %d", len(pair))
		}
	}
	return []step{{kind: stepScan, key: found.begin, scan: &found}}, nil
}

func joined(items []item, allowed []string, known bool, found []step) ([]step, error) {
	for i := range items {
		inside := false
		for _, op := range allowed {
			inside = inside || op == items[i].Op
		}
		if !inside {
			return nil, fmt.Errorf("op %q inside another", items[i].Op)
		}
		more, err := items[i].steps(known)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// operation returns what a line says, or nil if that is nothing: an aborted operation, or a read
// without a known outcome.
func (l *line) operation() (*operation, error) {
	if l.Client == nil || l.Call == nil || *l.Client < 0 {
		return nil, errors.New("client or call is missing or negative")
	}
	found := operation{client: *l.Client, call: *l.Call, ret: neverReturned}
	switch l.Status {
	case "ok", "aborted":
		if l.Return == nil {
			return nil, fmt.Errorf("status %q without return", l.Status)
		}
	case "":
		found.optional = l.Return == nil
	case "unknown":
		found.optional = true
	default:
		return nil, fmt.Errorf("unknown status %q", l.Status)
	}
	if l.Return != nil && *l.Return < *l.Call {
		return nil, errors.New("return before call")
	}
	if !found.optional {
		found.ret = *l.Return
	}
	var err error
	found.steps, err = l.steps(!found.optional && l.Status != "aborted")
	if err != nil || l.Status == "aborted" || found.optional && !writesAny(found.steps) {
		return nil, err
	}
	return &found, nil
}

func writesAny(steps []step) bool {
	for i := range steps {
		if k := steps[i].kind; k == stepWrite || k == stepAppend || k == stepAdd {
			return true
		}
	}
	return false
}

// readHistory reads one operation a line. An error names the line.
func readHistory(in io.Reader) (*history, error) {
	var found history
	decoder := json.NewDecoder(in)
	decoder.DisallowUnknownFields()
	for {
		var l line
		err := decoder.Decode(&l)
		if err == io.EOF {
			break
		}
		found.lines++
		var op *operation
		if err == nil {
			op, err = l.operation()
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", found.lines, err)
		}
		if op != nil {
			op.line = found.lines
			found.ops = append(found.ops, *op)
		}
	}
	if found.lines == 0 {
		return nil, errors.New("no operations")
	}
	expandScans(found.ops)
	return &found, nil
}

// expandScans replaces each scan by reads of the keys that it covers. Keys that no operation names
// stay empty, so those of the history are enough.
func expandScans(ops []operation) {
	keys := allKeys(ops)
	for i := range ops {
		var steps []step
		for j := range ops[i].steps {
			if s := &ops[i].steps[j]; s.kind == stepScan {
				steps = append(steps, s.scan.expand(keys)...)
			} else {
				steps = append(steps, *s)
			}
		}
		ops[i].steps = steps
	}
}

// expand returns what a scan says about each key it covers: up to end or, if the limit stopped it,
// up to the last pair. A pair that is out of order, out of bounds or over the limit is a stepNever.
func (s *scan) expand(keys []string) []step {
	var steps []step
	results := make(map[string]*string, len(s.pairs))
	for i, pair := range s.pairs {
		key := string(pair[0])
		if key < s.begin || s.end != nil && key >= *s.end || s.limit > 0 && i >= s.limit ||
			i > 0 && pair[0] <= s.pairs[i-1][0] {
			steps = append(steps, step{kind: stepNever, key: key})
		}
		results[key] = pair[1].text()
	}
	for _, key := range keys[sort.SearchStrings(keys, s.begin):] {
		if s.end != nil && key >= *s.end ||
			s.limit > 0 && len(s.pairs) >= s.limit && key > string(s.pairs[len(s.pairs)-1][0]) {
			break
		}
		steps = append(steps, step{kind: stepRead, key: key, value: results[key]})
	}
	return steps
}

// allKeys returns the keys of all steps in order.
func allKeys(ops []operation) []string {
	set := make(map[string]bool)
	for i := range ops {
		for j := range ops[i].steps {
			s := &ops[i].steps[j]
			if s.kind != stepScan {
				set[s.key] = true
				continue
			}
			for _, pair := range s.scan.pairs {
				set[string(pair[0])] = true
			}
		}
	}
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
