package config

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// node is a YAML value reduced to what a configuration needs: anchors, aliases,
// merge keys and tags are resolved, comments are gone, places are kept.
type node struct {
	kind   nodeKind
	text   string // a scalar as it was written, quotes and folding undone
	quoted bool   // the scalar was quoted or a block: a text whatever it looks like
	pairs  []pair
	items  []*node
	at     place
}

type pair struct {
	key   string
	at    place
	value *node
}

type place struct{ line, column int }

type nodeKind int

const (
	nullNode nodeKind = iota
	textNode
	numberNode
	boolNode
	mapNode
	listNode
)

// What a value of this kind is called in an error.
var kindNames = map[nodeKind]string{
	nullNode: "nothing", textNode: "a text", numberNode: "a number",
	boolNode: "true or false", mapNode: "a mapping", listNode: "a list",
}

// Bounds of a file: an alias may stand for a tree, and trees of aliases grow
// exponentially; a parser that calls itself for each bracket has a stack to lose.
const (
	maxNodes = 200_000
	maxDepth = 100
)

// parseYAML reads one YAML document; nil when it is empty.
func parseYAML(text []byte, fail func(place, string)) *node {
	if len(text) == 0 {
		return nil
	}
	if at, deep := tooDeep(text); deep {
		fail(at, fmt.Sprintf("brackets are nested more than %d deep", maxDepth))
		return nil
	}
	file, err := parseGuarded(text)
	if err != nil {
		var positioned yaml.Error
		if errors.As(err, &positioned) && positioned.GetToken() != nil {
			fail(placeOf(positioned.GetToken()), "not valid YAML: "+positioned.GetMessage())
		} else {
			fail(place{}, "not valid YAML: "+err.Error())
		}
		return nil
	}
	r := reducer{fail: fail, anchors: map[string]*node{}}
	var root *node
	for _, doc := range file.Docs {
		if doc == nil || doc.Body == nil {
			continue
		}
		if root != nil {
			fail(placeOf(doc.Body.GetToken()), "a second YAML document; a configuration is one document, without a second `---`")
			return nil
		}
		root = r.reduce(doc.Body, 0)
	}
	return root
}

// parseGuarded calls the YAML library. Its parser has panicked on malformed
// input in the past; a bad file must be a message, never the end of a worker.
func parseGuarded(text []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the YAML parser gave up on it (%v)", p)
		}
	}()
	return parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
}

// tooDeep looks for brackets nested beyond the limit, before the recursive
// parser meets them. Brackets in texts count too: no sane file has so many.
func tooDeep(text []byte) (place, bool) {
	depth, at := 0, place{1, 0}
	for _, c := range text {
		at.column++
		switch c {
		case '[', '{':
			if depth++; depth > maxDepth {
				return at, true
			}
		case ']', '}':
			depth = max(depth-1, 0)
		case '\n':
			at = place{at.line + 1, 0}
		}
	}
	return place{}, false
}

func placeOf(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{}
	}
	return place{t.Position.Line, t.Position.Column}
}

// reducer turns the library's tree into nodes.
type reducer struct {
	fail    func(place, string)
	anchors map[string]*node
	count   int
}

// reduce returns n as a node; whatever it cannot make sense of has been failed
// and is nothing.
func (r *reducer) reduce(n ast.Node, depth int) *node {
	if n == nil {
		return &node{}
	}
	at := placeOf(n.GetToken())
	if r.count++; r.count > maxNodes || depth > maxDepth {
		r.tooMuch(at)
		return &node{at: at}
	}
	switch n := n.(type) {
	case *ast.NullNode:
		return &node{at: at}
	case *ast.BoolNode:
		return &node{kind: boolNode, text: n.Token.Value, at: at}
	case *ast.IntegerNode:
		return &node{kind: numberNode, text: n.Token.Value, at: at}
	case *ast.FloatNode:
		return &node{kind: numberNode, text: n.Token.Value, at: at}
	case *ast.InfinityNode, *ast.NanNode:
		return &node{kind: numberNode, text: n.GetToken().Value, at: at}
	case *ast.StringNode:
		quoted := n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType
		if !quoted && jsonNumber.MatchString(n.Value) { // too large for the library's own numbers
			return &node{kind: numberNode, text: n.Value, at: at}
		}
		return &node{kind: textNode, text: n.Value, quoted: quoted, at: at}
	case *ast.LiteralNode:
		text := ""
		if n.Value != nil {
			text = n.Value.Value
		}
		return &node{kind: textNode, text: text, quoted: true, at: at}
	case *ast.MappingNode:
		return r.mapping(n.Values, at, depth)
	case *ast.MappingValueNode:
		return r.mapping([]*ast.MappingValueNode{n}, at, depth)
	case *ast.SequenceNode:
		list := &node{kind: listNode, at: at}
		for _, v := range n.Values {
			list.items = append(list.items, r.reduce(v, depth+1))
		}
		return list
	case *ast.AnchorNode:
		value := r.reduce(n.Value, depth+1)
		if n.Name != nil {
			r.anchors[n.Name.GetToken().Value] = value
		}
		return value
	case *ast.AliasNode:
		return r.alias(n, at)
	case *ast.TagNode:
		return r.tag(n, at, depth)
	}
	r.fail(at, fmt.Sprintf("%s has no meaning here", n.Type()))
	return &node{at: at}
}

func (r *reducer) tooMuch(at place) {
	if r.count < 2*maxNodes { // once
		r.count = 2 * maxNodes
		r.fail(at, "the configuration is too large or nested too deep")
	}
}

func (r *reducer) alias(n *ast.AliasNode, at place) *node {
	name := ""
	if n.Value != nil && n.Value.GetToken() != nil {
		name = n.Value.GetToken().Value
	}
	target, ok := r.anchors[name]
	if !ok {
		r.fail(at, fmt.Sprintf("alias *%s: no anchor &%s stands before it", name, name))
		return &node{at: at}
	}
	// The tree is shared, but counted as if it were written out here.
	if r.count += target.size(maxNodes); r.count > maxNodes {
		r.tooMuch(at)
		return &node{at: at}
	}
	return target
}

// size counts the nodes of a tree, up to limit.
func (n *node) size(limit int) int {
	total := 1
	for _, i := range n.items {
		if total > limit {
			return total
		}
		total += i.size(limit - total)
	}
	for _, p := range n.pairs {
		if total > limit {
			return total
		}
		total += p.value.size(limit - total)
	}
	return total
}

func (r *reducer) tag(n *ast.TagNode, at place, depth int) *node {
	value := r.reduce(n.Value, depth+1)
	if n.Start != nil && n.Start.Value == string(token.StringTag) && value.kind != mapNode && value.kind != listNode {
		return &node{kind: textNode, text: value.text, quoted: true, at: value.at}
	}
	r.fail(at, fmt.Sprintf("tag %s is not supported; leave it out", n.GetToken().Value))
	return value
}

func (r *reducer) mapping(values []*ast.MappingValueNode, at place, depth int) *node {
	m := &node{kind: mapNode, at: at}
	seen := map[string]place{}
	var merged []pair
	for _, v := range values {
		if v == nil || v.Key == nil {
			continue
		}
		keyAt := placeOf(v.Key.GetToken())
		if v.Key.IsMergeKey() {
			merged = append(merged, r.merge(r.reduce(v.Value, depth+1), keyAt)...)
			continue
		}
		name := keyText(v.Key)
		if first, dup := seen[name]; dup {
			r.fail(keyAt, fmt.Sprintf("%q stands here for the second time; the first is in line %d", name, first.line))
			continue
		}
		seen[name] = keyAt
		value := r.reduce(v.Value, depth+1)
		if value.at.line == 0 {
			value.at = keyAt
		}
		m.pairs = append(m.pairs, pair{name, keyAt, value})
	}
	for _, p := range merged { // what stands in the mapping itself wins
		if _, own := seen[p.key]; !own {
			seen[p.key] = p.at
			m.pairs = append(m.pairs, p)
		}
	}
	if len(m.pairs) > 0 && m.pairs[0].at.line < m.at.line || m.at.line == 0 && len(m.pairs) > 0 {
		m.at = m.pairs[0].at
	}
	return m
}

func (r *reducer) merge(value *node, at place) []pair {
	switch value.kind {
	case mapNode:
		return value.pairs
	case listNode:
		var all []pair
		for _, i := range value.items {
			all = append(all, r.merge(i, at)...)
		}
		return all
	}
	r.fail(at, "<< takes an alias of a mapping, such as <<: *base")
	return nil
}

func keyText(k ast.MapKeyNode) string {
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value
	case *ast.MappingKeyNode:
		if inner, ok := k.Value.(*ast.StringNode); ok {
			return inner.Value
		}
		if k.Value != nil {
			return k.Value.GetToken().Value
		}
	}
	return k.GetToken().Value
}
