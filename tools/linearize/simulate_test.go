package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand"
	"sort"
	"strings"
)

// A simulated store records histories. Every piece of an operation happens at a time that the
// simulation draws; a correct store draws one time between call and return for all pieces of an
// operation, and a bug is a store that draws other times. All follows from the seed.

type bug string

const (
	noBug         bug = ""
	staleRead     bug = "a read answers from before its call"
	lostWrite     bug = "an acknowledged write does not happen"
	doubledWrite  bug = "a write happens again after its return"
	tornBatch     bug = "the writes of a batch become visible one by one"
	tornMultiget  bug = "a multiget reads its keys one by one"
	tornRange     bug = "a range reads its keys one by one"
	lateSnapshot  bug = "a snapshot sees what was written after its return"
	tornSnapshot  bug = "the reads of a snapshot see different states"
	unchecked     bug = "a transaction commits though its reads are outdated"
	leakedAbort   bug = "an aborted transaction is visible for a while"
	lostMerge     bug = "two merges read the same value, and one is lost"
	swappedRange  bug = "a range returns two pairs in the wrong order"
	overfullRange bug = "a range ignores its limit"
)

var allBugs = []bug{staleRead, lostWrite, doubledWrite, tornBatch, tornMultiget, tornRange,
	lateSnapshot, tornSnapshot, unchecked, leakedAbort, lostMerge, swappedRange, overfullRange}

type simulation struct {
	seed                      int64
	clients, operations, keys int
	multi                     int  // percent of operations on several keys
	unknown                   int  // percent of operations with an unknown outcome
	resets                    bool // lists and counters are deleted, and counters shrink
	values                    int  // how many different values are written; 0: each is new
	bug                       bug
	bugPercent                int // of the operations that the bug could meet
	random                    *rand.Rand
	events                    []event
	lines                     []*line
	store                     map[string]string
	written                   int
}

type event struct {
	at  int64
	run func()
}

// run returns the history as the recorder writes it.
func (s *simulation) run() string {
	s.random = rand.New(rand.NewSource(s.seed))
	s.store = make(map[string]string)
	free := make([]int64, s.clients)
	names := make([]int, s.clients)
	for i := range free {
		free[i], names[i] = s.between(10000, 10100), i
	}
	for len(s.lines) < s.operations {
		c := 0
		for i := range free {
			if free[i] < free[c] {
				c = i
			}
		}
		call := free[c]
		ret := call + s.between(1, 300)
		if s.random.Intn(20) == 0 {
			ret += s.between(0, 3000)
		}
		l := s.operation(call, ret)
		name := names[c]
		l.Client, l.Call = &name, &call
		if l.Return == nil {
			names[c] += s.clients
		}
		s.lines = append(s.lines, l)
		free[c] = ret + s.between(1, 200)
	}
	sort.SliceStable(s.events, func(i, j int) bool { return s.events[i].at < s.events[j].at })
	for _, e := range s.events {
		e.run()
	}
	return s.text()
}

func (s *simulation) text() string {
	var text strings.Builder
	for _, l := range s.lines {
		data, err := json.Marshal(l)
		if err != nil {
			panic(err)
		}
		text.Write(append(data, '\n'))
	}
	return text.String()
}

func (s *simulation) between(low, high int64) int64 { return low + s.random.Int63n(high-low+1) }

func (s *simulation) percent(p int) bool { return s.random.Intn(100) < p }

// meets draws whether the bug strikes here.
func (s *simulation) meets(b bug) bool { return s.bug == b && s.percent(s.bugPercent) }

func (s *simulation) at(time int64, run func()) { s.events = append(s.events, event{time, run}) }

// operation draws an operation and when its pieces happen.
func (s *simulation) operation(call, ret int64) *line {
	l := &line{item: s.drawOperation()}
	moment := s.between(call, ret)
	if s.percent(s.unknown) {
		happens := s.percent(50)
		if happens {
			moment = call + s.between(0, 5000)
			s.at(moment, func() { s.apply(&l.item) })
		}
		if l.Op == "txn" && s.percent(50) { // its reads were answered
			if !happens {
				s.at(moment, func() { s.applyAll(l.Reads) })
			}
			return l
		}
		s.at(moment, func() { clearResults(&l.item) })
		return l
	}
	l.Return = &ret
	if l.Op == "txn" && s.percent(20) {
		l.Status = "aborted"
		if s.meets(leakedAbort) {
			old := make(map[string]string)
			s.at(moment, func() {
				for k, v := range s.store {
					old[k] = v
				}
				s.applyAll(l.Writes)
			})
			s.at(moment+s.between(50, 500), func() { s.undo(l.Writes, old) })
		}
		s.at(call, func() { s.applyAll(l.Reads) })
		return l
	}
	if s.misbehave(l, call, ret, moment) {
		return l
	}
	s.at(moment, func() { s.apply(&l.item) })
	return l
}

// misbehave schedules an operation as the bug has it, if the bug meets it.
func (s *simulation) misbehave(l *line, call, ret, moment int64) bool {
	apart := func(items []item) {
		for i := range items {
			it := &items[i]
			s.at(s.between(call, ret), func() { s.apply(it) })
		}
	}
	before, after := s.between(call, moment), s.between(moment, ret)
	writes := l.Op == "put" || l.Op == "delete" || l.Op == "merge"
	switch {
	case (l.Op == "get" || l.Op == "multiget" || l.Op == "range") && s.meets(staleRead):
		s.at(call-s.between(1, 2000), func() { s.apply(&l.item) })
	case writes && s.meets(lostWrite):
	case writes && s.meets(doubledWrite):
		s.at(moment, func() { s.apply(&l.item) })
		s.at(ret+s.between(1, 2000), func() { s.apply(&l.item) })
	case l.Op == "batch" && s.meets(tornBatch):
		apart(l.Items)
	case l.Op == "multiget" && s.meets(tornMultiget):
		l.Results = make([]*Bytes, len(l.Keys))
		for i := range l.Keys {
			i := i
			s.at(s.between(call, ret), func() { l.Results[i] = s.get(l.Keys[i]) })
		}
	case l.Op == "range" && s.meets(tornRange):
		s.at(before, func() { s.apply(&l.item) })
		s.at(after, func() { s.secondHalf(&l.item) })
	case l.Op == "snapshot" && s.meets(lateSnapshot):
		s.at(ret+s.between(1, 2000), func() { s.apply(&l.item) })
	case l.Op == "snapshot" && s.meets(tornSnapshot):
		apart(l.Reads)
	case l.Op == "txn" && s.meets(unchecked):
		s.at(before, func() { s.applyAll(l.Reads) })
		s.at(after, func() { s.applyAll(l.Writes) })
	case l.Op == "merge" && s.meets(lostMerge):
		var copied map[string]string
		s.at(before, func() {
			real := s.store
			s.store = map[string]string{}
			for k, v := range real {
				s.store[k] = v
			}
			s.apply(&l.item)
			copied, s.store = s.store, real
		})
		s.at(after, func() { s.store[string(*l.Key)] = copied[string(*l.Key)] })
	case l.Op == "range" && s.meets(swappedRange):
		s.at(moment, func() {
			s.apply(&l.item)
			if p := *l.Pairs; len(p) > 1 {
				p[0], p[1] = p[1], p[0]
			}
		})
	case l.Op == "range" && s.meets(overfullRange):
		limit := l.Limit
		l.Limit = nil
		s.at(moment, func() { s.apply(&l.item); l.Limit = limit })
	default:
		return false
	}
	return true
}

// secondHalf reads a range again and takes the later keys from that.
func (s *simulation) secondHalf(it *item) {
	first := *it.Pairs
	s.apply(it)
	second := *it.Pairs
	middle := Bytes(s.key(s.keys / 2))
	pairs := [][]Bytes{}
	for _, p := range first {
		if p[0] < middle {
			pairs = append(pairs, p)
		}
	}
	for _, p := range second {
		if p[0] >= middle {
			pairs = append(pairs, p)
		}
	}
	if it.Limit != nil && len(pairs) > *it.Limit {
		pairs = pairs[:*it.Limit]
	}
	it.Pairs = &pairs
}

func (s *simulation) undo(writes []item, old map[string]string) {
	for _, w := range writes {
		if v, ok := old[string(*w.Key)]; ok {
			s.store[string(*w.Key)] = v
		} else {
			delete(s.store, string(*w.Key))
		}
	}
}

// changeResult puts another value into one result.
func (s *simulation) changeResult() {
	value := Bytes(fmt.Sprint(s.random.Intn(2)))
	other := &value
	if s.percent(30) {
		other = nil
	}
	it := &s.lines[s.random.Intn(len(s.lines))].item
	for _, items := range [][]item{it.Items, it.Reads} {
		if len(items) > 0 {
			it = &items[s.random.Intn(len(items))]
		}
	}
	switch {
	case it.Result != nil:
		it.Result, _ = json.Marshal(other)
	case len(it.Results) > 0:
		it.Results[s.random.Intn(len(it.Results))] = other
	case it.Pairs != nil && len(*it.Pairs) > 0 && other == nil:
		*it.Pairs = (*it.Pairs)[1:]
	case it.Pairs != nil:
		key := Bytes(s.key(s.random.Intn(s.keys)))
		*it.Pairs = append(*it.Pairs, []Bytes{key, value})
	}
}

func clearResults(it *item) {
	it.Result, it.Results, it.Pairs = nil, nil, nil
	for i := range it.Items {
		clearResults(&it.Items[i])
	}
	for i := range it.Reads {
		clearResults(&it.Reads[i])
	}
}

// ---- what a correct store does ----

func (s *simulation) get(key Bytes) *Bytes {
	if v, ok := s.store[string(key)]; ok {
		b := Bytes(v)
		return &b
	}
	return nil
}

func (s *simulation) applyAll(items []item) {
	for i := range items {
		s.apply(&items[i])
	}
}

func (s *simulation) apply(it *item) {
	switch it.Op {
	case "put":
		s.store[string(*it.Key)] = string(*it.Value)
	case "delete":
		delete(s.store, string(*it.Key))
	case "merge":
		s.store[string(*it.Key)] = merged(s.store, it)
	case "get":
		it.Result, _ = json.Marshal(s.get(*it.Key))
	case "multiget":
		it.Results = make([]*Bytes, len(it.Keys))
		for i, key := range it.Keys {
			it.Results[i] = s.get(key)
		}
	case "range":
		pairs := rangeOf(s.store, it)
		it.Pairs = &pairs
	default:
		s.applyAll(it.Items)
		s.applyAll(it.Reads)
		s.applyAll(it.Writes)
	}
}

func merged(store map[string]string, it *item) string {
	old, there := store[string(*it.Key)]
	if it.Operator == "append" {
		var operand Bytes
		if err := json.Unmarshal(it.Operand, &operand); err != nil {
			panic(err)
		}
		if !there {
			return string(operand)
		}
		return old + "," + string(operand)
	}
	var sum, delta int64
	if len(old) == 8 {
		sum = int64(binary.LittleEndian.Uint64([]byte(old)))
	}
	if err := json.Unmarshal(it.Operand, &delta); err != nil {
		panic(err)
	}
	var eight [8]byte
	binary.LittleEndian.PutUint64(eight[:], uint64(sum+delta))
	return string(eight[:])
}

func rangeOf(store map[string]string, it *item) [][]Bytes {
	pairs := [][]Bytes{}
	for k, v := range store {
		if k >= string(*it.Begin) && (it.End == nil || k < string(*it.End)) {
			pairs = append(pairs, []Bytes{Bytes(k), Bytes(v)})
		}
	}
	sort.Slice(pairs, func(i, j int) bool { return pairs[i][0] < pairs[j][0] })
	if it.Limit != nil && *it.Limit > 0 && len(pairs) > *it.Limit {
		pairs = pairs[:*it.Limit]
	}
	return pairs
}

// ---- drawing operations ----

// key returns a key; the last two of at least four are a list and a counter, for merges.
func (s *simulation) key(i int) string {
	if s.keys >= 4 && i >= s.keys-2 {
		return [...]string{"list", "number"}[i-s.keys+2]
	}
	return fmt.Sprintf("key\x00%d", i)
}

func (s *simulation) drawKey() *Bytes {
	b := Bytes(s.key(s.random.Intn(s.keys)))
	return &b
}

func (s *simulation) drawKeys() []Bytes {
	var keys []Bytes
	for i := s.between(2, 3); i > 0; i-- {
		keys = append(keys, *s.drawKey())
	}
	return keys
}

func (s *simulation) drawWrite() item {
	key := s.drawKey()
	s.written++
	value := Bytes(fmt.Sprintf("\xff%d", s.written))
	if s.values > 0 {
		value = Bytes(fmt.Sprint(s.random.Intn(s.values)))
	}
	switch {
	case s.percent(15) && (s.resets || *key != "list" && *key != "number"):
		return item{Op: "delete", Key: key}
	case *key == "list" && s.resets && s.percent(10):
		return item{Op: "put", Key: key, Value: &value}
	case *key == "list":
		operand, _ := json.Marshal(value)
		return item{Op: "merge", Key: key, Operator: "append", Operand: operand}
	case *key == "number":
		delta := s.between(1, 3)
		if s.resets {
			delta = s.between(-3, 3)
		}
		return item{Op: "merge", Key: key, Operator: "add",
			Operand: json.RawMessage(fmt.Sprint(delta))}
	}
	return item{Op: "put", Key: key, Value: &value}
}

func (s *simulation) drawRead() item {
	switch s.random.Intn(4) {
	case 0:
		return item{Op: "multiget", Keys: s.drawKeys()}
	case 1:
		begin, end := s.drawKey(), s.drawKey()
		it := item{Op: "range", Begin: begin, End: end}
		if *end < *begin {
			it.Begin, it.End = end, begin
		}
		if s.percent(50) {
			it.End = nil
		}
		if s.percent(50) {
			limit := int(s.between(0, 3))
			it.Limit = &limit
		}
		return it
	}
	return item{Op: "get", Key: s.drawKey()}
}

func (s *simulation) drawItems(draw func() item) []item {
	var items []item
	for i := s.between(1, 3); i > 0; i-- {
		items = append(items, draw())
	}
	return items
}

func (s *simulation) drawOperation() item {
	if !s.percent(s.multi) {
		if s.percent(50) {
			return s.drawWrite()
		}
		return item{Op: "get", Key: s.drawKey()}
	}
	switch s.random.Intn(5) {
	case 0:
		return item{Op: "batch", Items: s.drawItems(func() item {
			if s.percent(30) {
				return s.drawRead()
			}
			return s.drawWrite()
		})}
	case 1:
		return item{Op: "snapshot", Reads: s.drawItems(s.drawRead)}
	case 2:
		return item{Op: "txn", Reads: s.drawItems(s.drawRead), Writes: s.drawItems(s.drawWrite)}
	}
	return s.drawRead()
}
