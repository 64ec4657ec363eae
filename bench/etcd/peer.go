// SPDX-License-Identifier: Apache-2.0
// Go's concurrency.Mutex as a worker: peer ENDPOINT, an order a line, a line of figures an answer.
//
//	pairs N MS       N goroutines, a mutex each, one client and one session
//	contention N MS  N clients with a session each, and one mutex
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const warmUp = 200

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func openSession() *concurrency.Session {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}})
	check(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(30))
	check(err)
	return session
}

// Locks and unlocks until then, or so often: how long each pair took.
func run(mutex *concurrency.Mutex, ends time.Time, most int) []time.Duration {
	var samples []time.Duration
	for before := time.Now(); len(samples) < most && before.Before(ends); {
		check(mutex.Lock(context.TODO()))
		check(mutex.Unlock(context.TODO()))
		now := time.Now()
		samples = append(samples, now.Sub(before))
		before = now
	}
	return samples
}

func runAll(mutexes []*concurrency.Mutex, ms int) ([][]time.Duration, time.Duration) {
	const noLimit = 1 << 30
	samples := make([][]time.Duration, len(mutexes))
	began := time.Now()
	ends := began.Add(time.Duration(ms) * time.Millisecond)
	var group sync.WaitGroup
	for i, mutex := range mutexes {
		group.Add(1)
		go func() {
			defer group.Done()
			samples[i] = run(mutex, ends, noLimit)
		}()
	}
	group.Wait()
	return samples, time.Since(began)
}

var shared *concurrency.Session
var own []*concurrency.Mutex

func pairs(count, ms int) {
	if shared == nil {
		shared = openSession()
	}
	for i := len(own); i < count; i++ {
		mutex := concurrency.NewMutex(shared, fmt.Sprintf("bench/lock:go:%08d", i))
		run(mutex, time.Now().Add(time.Minute), warmUp)
		own = append(own, mutex)
	}
	samples, took := runAll(own[:count], ms)
	var all []time.Duration
	for _, some := range samples {
		all = append(all, some...)
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	fmt.Printf("p50=%d p99=%d max=%d pairs=%d ns=%d\n", all[len(all)/2], all[len(all)*99/100],
		all[len(all)-1], len(all), took)
}

var competing []*concurrency.Mutex

func contention(count, ms int) {
	for len(competing) < count {
		competing = append(competing, concurrency.NewMutex(openSession(), "bench/lock:go:contention"))
	}
	samples, took := runAll(competing[:count], ms)
	sum, least, most := 0, 1<<30, 0
	for _, some := range samples {
		sum += len(some)
		least = min(least, len(some))
		most = max(most, len(some))
	}
	fmt.Printf("pairs=%d ns=%d min=%d max=%d\n", sum, took, least, most)
}

func main() {
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		var verb string
		var count, ms int
		_, err := fmt.Sscan(orders.Text(), &verb, &count, &ms)
		check(err)
		if verb == "pairs" {
			pairs(count, ms)
		} else {
			contention(count, ms)
		}
	}
}
