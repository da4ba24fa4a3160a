package main

import (
	"io"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// How a history is checked:
//
//  1. Values that only one operation writes tell when it must have happened: tighten() narrows the
//     intervals, settles unknown outcomes, and drops writes that nobody could have seen.
//  2. Keys that occur together in one operation form a component; components are independent.
//  3. Projected onto fewer keys, a linearizable history stays linearizable. So each key alone goes
//     first, which is cheap and finds most violations; then all keys of the component together; if
//     that takes long, each pair of keys, and again all together.
//  4. A violation is made smaller as long as it stays one: by leaving out keys, what came after the
//     earliest return that shows it, and what came before its last operations.
//
// A history that is linearizable stays so when keys, or what came after or before a moment, are
// left out as project(), until() and since() do it. tighten() and the search find out what the
// operations say; what is reported is always a part of the recorded history.

type verdict int

const (
	linearizable verdict = iota
	violating
	unknown // the time or the memory did not suffice
)

type limits struct {
	time  time.Duration // for the verdict; making a violation smaller may take as long again
	bytes int
}

type result struct {
	verdict   verdict
	violation *violation
}

// A violation is a part of a history that no order of its operations explains.
type violation struct {
	keys  []string
	ops   []operation // as recorded, with the steps on these keys
	cause operation   // the one whose return shows it
	// The store may hold anything when the operations begin: earlier ones were left out.
	midway    bool
	confirmed bool // by porcupine, too
}

func check(h *history, l limits) result {
	deadline := time.Now().Add(l.time)
	ops := tighten(h.ops)
	found := result{}
	for _, keys := range components(ops) {
		c := checker{ops: project(ops, keys), tight: true, bytes: l.bytes}
		verdict, bad := c.component(keys, deadline)
		if verdict == violating {
			c := checker{ops: h.ops, bytes: l.bytes}
			return result{violating, c.shrink(bad, keys, l)}
		}
		if verdict == unknown {
			found.verdict = unknown
		}
	}
	return found
}

type checker struct {
	ops   []operation
	tight bool // ops are tightened
	bytes int
}

// component checks one component and returns the keys that a violation needs. Each of the four
// rounds has a quarter of the time, the last one what is left.
func (c *checker) component(keys []string, deadline time.Time) (verdict, []string) {
	start := time.Now()
	round := func(i time.Duration) time.Time { return start.Add(deadline.Sub(start) * i / 4) }
	for i := range keys {
		if len(keys) > 1 && c.search(keys[i:i+1], round(1)) == violating {
			return violating, keys[i : i+1]
		}
	}
	if found := c.search(keys, round(2)); found != unknown {
		return found, keys
	}
	for i := range keys {
		for _, other := range keys[i+1:] {
			pair := []string{keys[i], other}
			if c.search(pair, round(3)) == violating {
				return violating, pair
			}
		}
	}
	return c.search(keys, deadline), keys
}

// search looks for an order that explains what the operations do with these keys.
func (c *checker) search(keys []string, deadline time.Time) verdict {
	left := time.Until(deadline)
	if left <= 0 {
		return unknown
	}
	ops := project(c.ops, keys)
	if !c.tight {
		ops = tighten(ops)
	}
	m := newModel(ops, keys, false)
	m.infer()
	order, found := m.find(deadline, c.bytes)
	if found == linearizable && !explains(ops, order) {
		panic("the search found an order that explains nothing")
	}
	return found
}

// shrink makes a violation smaller. The checker's operations are the recorded ones; keys are those
// found with the help of the whole component.
func (c *checker) shrink(keys, whole []string, l limits) *violation {
	deadline := time.Now().Add(l.time)
	if c.search(keys, deadline) != violating {
		keys = whole
	}
	for i := 0; i < len(keys) && len(keys) > 1; {
		fewer := append(append([]string{}, keys[:i]...), keys[i+1:]...)
		if c.search(fewer, deadline) == violating {
			keys = fewer
		} else {
			i++
		}
	}
	ops := project(c.ops, keys)
	returns := make([]operation, 0, len(ops))
	for _, op := range ops {
		if !op.optional {
			returns = append(returns, op)
		}
	}
	sort.SliceStable(returns, func(i, j int) bool { return returns[i].ret < returns[j].ret })
	first := sort.Search(len(returns)-1, func(i int) bool {
		part := checker{ops: until(ops, returns[i].ret), bytes: c.bytes}
		return part.search(keys, deadline) == violating
	})
	v := &violation{keys: keys, ops: until(ops, returns[first].ret), cause: returns[first]}
	for count := 2; count < first; count *= 2 {
		part := since(v.ops, returns[first-count].ret)
		_, found := newModel(part, keys, true).find(deadline, c.bytes)
		if found == violating {
			v.ops, v.midway = part, true
			break
		}
	}
	v.confirm(l)
	return v
}

// confirm asks porcupine, which shares nothing but the model with the search.
func (v *violation) confirm(l limits) {
	model, history := newModel(v.ops, v.keys, v.midway).porcupine()
	switch porcupine.CheckOperationsTimeout(model, history, l.time/4) {
	case porcupine.Ok:
		panic("porcupine finds an order where the search finds none\n" + v.describe())
	case porcupine.Illegal:
		v.confirmed = true
	}
}

// visualize writes porcupine's page of a violation, for a large one without the attempts to order
// it: they would be megabytes.
func (v *violation) visualize(l limits, out io.Writer) error {
	const most = 500
	model, history := newModel(v.ops, v.keys, v.midway).porcupine()
	limit := l.time / 4
	if len(v.ops) > most {
		limit = time.Nanosecond
	}
	_, info := porcupine.CheckOperationsVerbose(model, history, limit)
	return porcupine.Visualize(model, info, out)
}

// until returns what was known at one moment: operations that were called, with the outcome unknown
// of those that had not returned.
func until(ops []operation, moment int64) []operation {
	var found []operation
	for _, op := range ops {
		if op.call > moment {
			continue
		}
		if op.ret > moment && !op.optional {
			op.optional, op.ret = true, neverReturned
		}
		if !op.optional || writesAny(op.steps) {
			found = append(found, op)
		}
	}
	return found
}

// since leaves out what had returned at a moment. What was running then may have happened before
// it.
func since(ops []operation, moment int64) []operation {
	var found []operation
	for _, op := range ops {
		if op.call < moment && op.ret >= moment {
			op.optional, op.ret = true, neverReturned
		}
		if op.ret >= moment && (!op.optional || writesAny(op.steps)) {
			found = append(found, op)
		}
	}
	return found
}

// project keeps the steps on some keys, and the operations that then still matter.
func project(ops []operation, keys []string) []operation {
	inside := make(map[string]bool, len(keys))
	for _, key := range keys {
		inside[key] = true
	}
	found := make([]operation, 0, len(ops))
	for _, op := range ops {
		all := op.steps
		op.steps = nil
		for i := range all {
			if inside[all[i].key] {
				op.steps = append(op.steps, all[i])
			}
		}
		if len(op.steps) > 0 && (!op.optional || writesAny(op.steps)) {
			found = append(found, op)
		}
	}
	return found
}

// components groups keys that occur together in an operation, each group in order.
func components(ops []operation) [][]string {
	parent := make(map[string]string)
	var root func(key string) string
	root = func(key string) string {
		above, ok := parent[key]
		if !ok || above == key {
			parent[key] = key
			return key
		}
		parent[key] = root(above)
		return parent[key]
	}
	for i := range ops {
		steps := ops[i].steps
		for j := range steps {
			parent[root(steps[j].key)] = root(steps[0].key)
		}
	}
	groups := make(map[string][]string)
	keys := allKeys(ops)
	for _, key := range keys {
		groups[root(key)] = append(groups[root(key)], key)
	}
	found := make([][]string, 0, len(groups))
	for _, key := range keys {
		if group := groups[root(key)]; group[0] == key {
			found = append(found, group)
		}
	}
	return found
}

// tighten returns the operations with narrower intervals; they are linearizable if and only if the
// given ones are.
//
//   - Who reads what only one operation writes comes after that operation. So the reader's interval
//     begins no earlier than the writer's, and the writer's ends no later than the reader's. An
//     unknown writer has happened.
//   - An unknown operation of which nobody reads a value has not been seen, or only in what it
//     overwrote; leaving it out changes no result. It must not delete, as others may delete too.
//
// What is read and written is a whole value, or an element of a list that is appended to; counters
// are left out. Intervals that would end before they begin are left as they are: the search finds
// the violation.
func tighten(ops []operation) []operation {
	ops = append([]operation(nil), ops...)
	for changed := true; changed; {
		changed = false
		facts := learn(ops)
		for it := range facts.proven {
			if writer, ok := facts.writers[it]; ok && writer != several && ops[writer].optional {
				ops[writer].optional, changed = false, true
			}
		}
		for _, r := range facts.reads {
			writer, ok := facts.writers[r.content]
			if !ok || writer == several || writer == r.reader {
				continue
			}
			reader, writes := &ops[r.reader], &ops[writer]
			if writes.call > reader.call && writes.call <= reader.ret {
				reader.call, changed = writes.call, true
			}
			if reader.ret < writes.ret && reader.ret >= writes.call {
				writes.ret, changed = reader.ret, true
			}
		}
	}
	facts := learn(ops)
	kept := ops[:0]
	for _, op := range ops {
		if !op.optional || facts.maySee(&op) {
			kept = append(kept, op)
		}
	}
	return kept
}

type keyKind uint8

const (
	keyPlain   keyKind = iota
	keyList            // appended to, perhaps also written
	keyGrowing         // only added to, and only more than 0
	keyCounter         // else
)

func keyKinds(ops []operation) map[string]keyKind {
	type use struct{ writes, appends, adds, shrinks bool }
	uses := make(map[string]use)
	for i := range ops {
		for j := range ops[i].steps {
			s := &ops[i].steps[j]
			if s.reads() {
				continue
			}
			u := uses[s.key]
			u.writes = u.writes || s.kind == stepWrite
			u.appends = u.appends || s.kind == stepAppend
			u.adds = u.adds || s.kind == stepAdd
			u.shrinks = u.shrinks || s.kind == stepAdd && (s.delta <= 0 || s.delta > math.MaxInt32)
			uses[s.key] = u
		}
	}
	kinds := make(map[string]keyKind, len(uses))
	for key, u := range uses {
		switch {
		case !u.adds && u.appends:
			kinds[key] = keyList
		case u.adds && (u.writes || u.appends || u.shrinks):
			kinds[key] = keyCounter
		case u.adds:
			kinds[key] = keyGrowing
		}
	}
	return kinds
}

// noValue stands for a missing value; no part of a list is like it.
const noValue = ",none"

// partsOf returns the elements of a list, or the whole value.
func partsOf(value *string, kind keyKind) []string {
	switch {
	case value == nil:
		return []string{noValue}
	case kind == keyList:
		return strings.Split(*value, ",")
	}
	return []string{"=" + *value}
}

// A content is a part of a value under a key.
type content struct{ key, part string }

const several = -1

type contentRead struct {
	content
	reader int
}

type knowledge struct {
	kinds   map[string]keyKind
	writers map[content]int  // the operation that writes it, or several
	reads   []contentRead    // of what others wrote, by operations that happened
	proven  map[content]bool // read by an operation that happened
	seen    map[content]bool // read by any operation
}

func learn(ops []operation) *knowledge {
	k := &knowledge{kinds: keyKinds(ops), writers: make(map[content]int),
		proven: make(map[content]bool), seen: make(map[content]bool)}
	lists := make(map[content]bool)
	for i := range ops {
		steps := ops[i].steps
		for j := range steps {
			s := &steps[j]
			kind := k.kinds[s.key]
			if s.value == nil || s.kind == stepNever || kind == keyCounter || kind == keyGrowing {
				continue
			}
			if !s.reads() {
				for _, part := range partsOf(s.value, kind) {
					it := content{s.key, part}
					if before, ok := k.writers[it]; ok && before != i {
						k.writers[it] = several
					} else {
						k.writers[it] = i
					}
				}
			} else if !overwritesKey(steps[:j], s.key) {
				k.learnRead(s, kind, i, !ops[i].optional, lists)
			}
		}
	}
	return k
}

// learnRead notes a read. Of a list that was noted before, only the last element is noted again:
// lists grow long.
func (k *knowledge) learnRead(s *step, kind keyKind, reader int, happened bool,
	lists map[content]bool) {
	value, list := s.value, content{s.key, *s.value}
	if kind == keyList && lists[list] {
		last := (*value)[strings.LastIndexByte(*value, ',')+1:]
		value = &last
	}
	for _, part := range partsOf(value, kind) {
		it := content{s.key, part}
		k.seen[it] = true
		if happened {
			k.proven[it] = true
			k.reads = append(k.reads, contentRead{it, reader})
		}
	}
	if happened && kind == keyList {
		lists[list] = true
	}
}

func writesKey(steps []step, key string) bool {
	for i := range steps {
		if steps[i].key == key && !steps[i].reads() {
			return true
		}
	}
	return false
}

// overwritesKey tells whether nothing of what a key held before is left; merges leave it.
func overwritesKey(steps []step, key string) bool {
	for i := range steps {
		if steps[i].key == key && steps[i].kind == stepWrite {
			return true
		}
	}
	return false
}

// maySee tells whether somebody may have noticed the operation.
func (k *knowledge) maySee(op *operation) bool {
	for i := range op.steps {
		s := &op.steps[i]
		kind := k.kinds[s.key]
		if s.reads() {
			continue
		}
		if s.value == nil || kind == keyCounter || kind == keyGrowing {
			return true
		}
		for _, part := range partsOf(s.value, kind) {
			if k.seen[content{s.key, part}] {
				return true
			}
		}
	}
	return false
}
