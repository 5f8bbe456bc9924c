package store

// slotsOf is the GLOB pattern of a worker's slots beside the worker's own id: w1.*
// Characters that GLOB would read otherwise are taken literally.
func slotsOf(worker string) string {
	var b []byte
	for i := 0; i < len(worker); i++ {
		switch ch := worker[i]; ch {
		case '*', '?', '[':
			b = append(b, '[', ch, ']')
		default:
			b = append(b, ch)
		}
	}
	return string(b) + ".*"
}
