// SPDX-License-Identifier: Apache-2.0
// Locks with Go's concurrency package and its recipes: peer ENDPOINT COMMAND NAME [ARGUMENT...]
//
//	count NAME FILE ROUNDS       adds to a number in a file, each time under the mutex
//	count-rw NAME FILE ROUNDS    the same as a writer
//	try NAME                     is the mutex free? ends with 0 or 75
//	hold KIND NAME               mutex, read, write or leader: says "held REVISION", gives it back
//	                             after a line of input
//	leader NAME                  says what the leader of the election has proclaimed, or "none"
//	observe NAME                 says that of each leader from now on
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func addOne(path string) {
	text, err := os.ReadFile(path)
	check(err)
	count, err := strconv.Atoi(strings.TrimSpace(string(text)))
	check(err)
	check(os.WriteFile(path, []byte(strconv.Itoa(count+1)+"\n"), 0o600))
}

func count(session *concurrency.Session, name, path string, rounds int) {
	mutex := concurrency.NewMutex(session, name)
	for ; rounds > 0; rounds-- {
		check(mutex.Lock(context.TODO()))
		addOne(path)
		check(mutex.Unlock(context.TODO()))
	}
}

func countAsWriter(session *concurrency.Session, name, path string, rounds int) {
	lock := recipe.NewRWMutex(session, name)
	for ; rounds > 0; rounds-- {
		check(lock.Lock())
		addOne(path)
		check(lock.Unlock())
	}
}

func try(session *concurrency.Session, name string) {
	mutex := concurrency.NewMutex(session, name)
	err := mutex.TryLock(context.TODO())
	if errors.Is(err, concurrency.ErrLocked) {
		os.Exit(75)
	}
	check(err)
	check(mutex.Unlock(context.TODO()))
}

// What gives it back.
func take(session *concurrency.Session, kind, name string) func() error {
	lock := recipe.NewRWMutex(session, name)
	switch kind {
	case "read":
		check(lock.RLock())
		return lock.RUnlock
	case "write":
		check(lock.Lock())
		return lock.Unlock
	case "leader":
		election := concurrency.NewElection(session, name)
		check(election.Campaign(context.TODO(), "go"))
		fmt.Printf("held %d\n", election.Rev())
		return func() error { return election.Resign(context.TODO()) }
	}
	mutex := concurrency.NewMutex(session, name)
	check(mutex.Lock(context.TODO()))
	fmt.Printf("held %d\n", mutex.Header().Revision)
	return func() error { return mutex.Unlock(context.TODO()) }
}

func hold(session *concurrency.Session, kind, name string) {
	giveBack := take(session, kind, name)
	if kind == "read" || kind == "write" {
		fmt.Println("held 0")
	}
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	check(giveBack())
}

func leader(session *concurrency.Session, name string) {
	reply, err := concurrency.NewElection(session, name).Leader(context.TODO())
	if errors.Is(err, concurrency.ErrElectionNoLeader) {
		fmt.Println("none")
		return
	}
	check(err)
	fmt.Println(string(reply.Kvs[0].Value))
}

func observe(session *concurrency.Session, name string) {
	fmt.Println("ready")
	for reply := range concurrency.NewElection(session, name).Observe(context.TODO()) {
		fmt.Println(string(reply.Kvs[0].Value))
	}
}

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}})
	check(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(20))
	check(err)
	rounds := 0
	if len(os.Args) > 5 {
		rounds, err = strconv.Atoi(os.Args[5])
		check(err)
	}
	switch os.Args[2] {
	case "count":
		count(session, os.Args[3], os.Args[4], rounds)
	case "count-rw":
		countAsWriter(session, os.Args[3], os.Args[4], rounds)
	case "try":
		try(session, os.Args[3])
	case "hold":
		hold(session, os.Args[3], os.Args[4])
	case "leader":
		leader(session, os.Args[3])
	case "observe":
		observe(session, os.Args[3])
	default:
		check(errors.New("unknown command"))
	}
	check(session.Close())
}
