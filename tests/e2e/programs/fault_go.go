// A Go program: its runtime makes a panic of SIGSEGV. One goroutine panics all the time, while
// another has RDMA traffic whose memory is taken away.
//
//	fault_go ROUNDS
package main

// #cgo LDFLAGS: -libverbs -lpthread
// #include "thefts.h"
// static int all_thefts(int rounds) {
//   struct thefts* t = open_thefts();
//   steal(t, rounds);
//   close_thefts(t);
//   return rounds * kTheftCount;
// }
import "C"

import (
	"fmt"
	"os"
	"strconv"
)

type pair struct{ first, second int }

func touch(p *pair) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	p.second = 1
	return
}

func main() {
	rounds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	done := make(chan int)
	go func() { done <- int(C.all_thefts(C.int(rounds))) }()
	for panics := 0; ; panics++ {
		if !touch(nil) {
			panic("nil was touched")
		}
		select {
		case thefts := <-done:
			fmt.Printf("%d thefts under traffic beside %d panics\n", thefts, panics)
			return
		default:
		}
	}
}
