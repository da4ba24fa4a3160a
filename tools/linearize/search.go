package main

import (
	"encoding/binary"
	"sort"
	"time"
)

// The search for an order, depth first:
//
//  1. A node is a state, the operations that may come next (pending, earliest return first) and how
//     many operations were ever pending. An operation may come next if none that is still to come
//     returned before its call.
//  2. A pending operation that only reads and fits is taken at once: later it could only fit worse,
//     and it changes nothing for the others.
//  3. Otherwise each pending operation is tried, the most urgent first. Those with an unknown
//     outcome never return, so they come last; when only they are left, the order is complete.
//  4. A node is given up if it was seen before, or if an operation still to come reads a value that
//     is gone and that nobody will write again.
//  5. An operation with an unknown outcome is loose until a later one is related to it. It could as
//     well come after operations that are not, so the next one that writes and is sure to have
//     happened must not leave any loose. And if all that it did is overwritten unseen while it is
//     loose, it could as well not have happened.
//
// Porcupine tries operations by their calls and has neither 2 nor 5 nor the second half of 4. Alone
// it took 24 times as long for simulated histories of about 1,000 operations and left 5 of 60
// undecided after 2 s. An order that is found here is checked by explains(), and a violation is
// given to porcupine, so that neither answer rests on this file alone.
type search struct {
	m        *model
	byCall   []int32
	seen     map[string]struct{}
	key      []byte
	order    []int32
	left     int // operations still to come whose outcome is known
	needed   []int32
	made     []int32 // how many operations still to come read a content, and write a part
	bytes    int     // left for seen
	deadline time.Time
	gaveUp   bool
}

type node struct {
	state   string
	pending []int32
	loose   []int32
	next    int // of byCall
}

// find returns an order of the operations that explains their results: indexes into m.ops, without
// the unknown ones that did not happen.
func (m *model) find(deadline time.Time, bytes int) ([]int32, verdict) {
	s := search{m: m, seen: make(map[string]struct{}), bytes: bytes, deadline: deadline,
		needed: make([]int32, len(m.contents)), made: make([]int32, len(m.parts))}
	for i := range m.ops {
		s.byCall = append(s.byCall, int32(i))
		s.count(&m.ops[i], 1)
	}
	sort.SliceStable(s.byCall, func(i, j int) bool {
		return m.ops[s.byCall[i]].source.call < m.ops[s.byCall[j]].source.call
	})
	switch {
	case s.explore(node{state: m.start}):
		return s.order, linearizable
	case s.gaveUp:
		return nil, unknown
	}
	return nil, violating
}

func (s *search) explore(n node) bool {
	mark := len(s.order)
	ok := s.settle(&n)
	if s.left == 0 {
		return true
	}
	if ok && s.enter(&n) {
		for i, index := range n.pending {
			op := &s.m.ops[index]
			fits, after := s.m.apply(n.state, op)
			if !fits || op.optional && after == n.state {
				continue
			}
			loose, ok := s.loosen(n.loose, index)
			if !ok {
				continue
			}
			s.take(index)
			if !s.lost(op, n.state, after) &&
				s.explore(node{after, without(n.pending, i), loose, n.next}) {
				return true
			}
			s.backTo(len(s.order) - 1)
			if s.gaveUp {
				break
			}
		}
	}
	s.backTo(mark)
	return false
}

// loosen returns the loose operations after one more, and whether the order may go on.
func (s *search) loosen(loose []int32, index int32) ([]int32, bool) {
	op := &s.m.ops[index]
	var still []int32
	for _, other := range loose {
		before := &s.m.ops[other]
		if !before.related(op) {
			still = append(still, other)
		} else if before.hiddenBy(op) {
			return nil, false
		}
	}
	if op.optional {
		return append(still, index), true
	}
	return still, op.pure || len(still) == 0
}

// settle adds the operations that may come next, and takes those that only read and fit.
func (s *search) settle(n *node) bool {
	ops := s.m.ops
	for {
		for n.next < len(ops) && (len(n.pending) == 0 ||
			ops[s.byCall[n.next]].source.call <= ops[n.pending[0]].source.ret) {
			n.pending = s.insert(n.pending, s.byCall[n.next])
			n.next++
		}
		taken := false
		for i, index := range n.pending {
			if !ops[index].pure {
				continue
			}
			if fits, after := s.m.apply(n.state, &ops[index]); fits && after == n.state {
				loose, ok := s.loosen(n.loose, index)
				if !ok {
					return false
				}
				s.take(index)
				n.pending, n.loose = without(n.pending, i), loose
				taken = true
				break
			}
		}
		if !taken {
			return true
		}
	}
}

// insert returns a copy of pending with one more operation, in the order of returns.
func (s *search) insert(pending []int32, index int32) []int32 {
	ret := s.m.ops[index].source.ret
	at := sort.Search(len(pending), func(i int) bool { return s.m.ops[pending[i]].source.ret > ret })
	more := make([]int32, 0, len(pending)+4)
	more = append(more, pending[:at]...)
	more = append(more, index)
	return append(more, pending[at:]...)
}

func without(pending []int32, i int) []int32 {
	fewer := make([]int32, 0, len(pending))
	return append(append(fewer, pending[:i]...), pending[i+1:]...)
}

// enter notes a node and tells whether it is new and the limits allow it.
func (s *search) enter(n *node) bool {
	s.key = append(s.key[:0], n.state...)
	s.key = binary.LittleEndian.AppendUint32(s.key, uint32(n.next))
	for _, index := range n.pending {
		s.key = binary.LittleEndian.AppendUint32(s.key, uint32(index))
	}
	s.key = append(s.key, 0xff, 0xff, 0xff, 0xff)
	for _, index := range n.loose {
		s.key = binary.LittleEndian.AppendUint32(s.key, uint32(index))
	}
	if _, ok := s.seen[string(s.key)]; ok {
		return false
	}
	s.seen[string(s.key)] = struct{}{}
	s.bytes -= len(s.key) + bytesPerNode
	s.gaveUp = s.gaveUp || s.bytes-s.m.bytes < 0 ||
		len(s.seen)%256 == 0 && time.Now().After(s.deadline)
	return !s.gaveUp
}

func (s *search) take(index int32) {
	s.order = append(s.order, index)
	s.count(&s.m.ops[index], -1)
}

func (s *search) backTo(length int) {
	for len(s.order) > length {
		last := len(s.order) - 1
		s.count(&s.m.ops[s.order[last]], 1)
		s.order = s.order[:last]
	}
}

// count adds an operation to those still to come, or takes it from them.
func (s *search) count(op *modelOperation, by int32) {
	if !op.optional {
		s.left += int(by)
		for _, content := range op.needs {
			s.needed[content] += by
		}
	}
	for _, part := range op.makes {
		s.made[part] += by
	}
}

// lost tells whether an operation overwrote a value for good that another one is to read.
func (s *search) lost(op *modelOperation, state, after string) bool {
	for i := range op.steps {
		at := op.steps[i].offset
		if state[at:at+4] == after[at:at+4] {
			continue
		}
		content, ok := s.m.contents[cell{at, number(state, at)}]
		if !ok || s.needed[content] == 0 {
			continue
		}
		for _, part := range s.m.contentParts[content] {
			if s.made[part] == 0 {
				return true
			}
		}
	}
	return false
}

// explains tells whether an order of operations is a linearization: all that must have happened are
// in it, none comes after one that was called when it had returned, and every result fits. It is
// the proof of a good history, so it shares nothing with the search.
func explains(ops []operation, order []int32) bool {
	store := make(map[string]string)
	taken := make([]bool, len(ops))
	latest := int64(-1 << 63)
	for _, index := range order {
		op := &ops[index]
		if taken[index] || op.ret < latest {
			return false
		}
		taken[index] = true
		if op.call > latest {
			latest = op.call
		}
		for i := range op.steps {
			if !op.steps[i].run(store) {
				return false
			}
		}
	}
	for i := range ops {
		if !taken[i] && !ops[i].optional {
			return false
		}
	}
	return true
}

// run does a step on a plain map and tells whether its result fits.
func (s *step) run(store map[string]string) bool {
	before, there := store[s.key]
	switch s.kind {
	case stepRead:
		return there == (s.value != nil) && (!there || before == *s.value)
	case stepWrite:
		delete(store, s.key)
		if s.value != nil {
			store[s.key] = *s.value
		}
	case stepAppend:
		store[s.key] = appendTo(before, there, *s.value)
	case stepAdd:
		store[s.key] = addTo(before, s.delta)
	default:
		return false
	}
	return true
}

func appendTo(before string, there bool, operand string) string {
	if !there {
		return operand
	}
	return before + "," + operand
}

// addTo does what RocksDB's UInt64AddOperator does: eight bytes, little end first; a value of
// another length counts as 0.
func addTo(before string, delta int64) string {
	sum := uint64(delta)
	if len(before) == 8 {
		sum += binary.LittleEndian.Uint64([]byte(before))
	}
	return string(binary.LittleEndian.AppendUint64(nil, sum))
}
