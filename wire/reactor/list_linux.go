package reactor

// list is a doubly linked list of connections, through their links.
type list struct{ root links }

type links struct{ prev, next *conn }

func (l *list) init() { l.root = links{} }

func (l *list) first() *conn { return l.root.next }

func (l *list) after(c *conn) *conn { return c.links.next }

// push appends c.
func (l *list) push(c *conn) {
	c.links = links{prev: l.root.prev}
	if l.root.prev == nil {
		l.root.next = c
	} else {
		l.root.prev.links.next = c
	}
	l.root.prev = c
}

// remove takes c out.
func (l *list) remove(c *conn) {
	if c.links.prev == nil {
		l.root.next = c.links.next
	} else {
		c.links.prev.links.next = c.links.next
	}
	if c.links.next == nil {
		l.root.prev = c.links.prev
	} else {
		c.links.next.links.prev = c.links.prev
	}
	c.links = links{}
}
