// SPDX-License-Identifier: Apache-2.0
// Counts with redsync: counter PORT NAME FILE ROUNDS; with 0 rounds, is it free? 0 or 75.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	redis "github.com/gomodule/redigo/redis"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "counter:", err)
		os.Exit(1)
	}
}

func unlock(mutex *redsync.Mutex) {
	wasOurs, err := mutex.Unlock()
	check(err)
	if !wasOurs {
		check(errors.New("the lock was lost"))
	}
}

func addOne(path string) {
	text, err := os.ReadFile(path)
	check(err)
	count, err := strconv.Atoi(strings.TrimSpace(string(text)))
	check(err)
	check(os.WriteFile(path, []byte(strconv.Itoa(count+1)+"\n"), 0o600))
}

func main() {
	port, name, path := os.Args[1], os.Args[2], os.Args[3]
	rounds, err := strconv.Atoi(os.Args[4])
	check(err)
	locks := redsync.New(redigo.NewPool(&redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", "127.0.0.1:"+port)
	}}))
	expiry := redsync.WithExpiry(time.Minute)
	if rounds == 0 {
		mutex := locks.NewMutex(name, expiry, redsync.WithTries(1))
		var taken *redsync.ErrTaken
		err := mutex.Lock()
		if errors.As(err, &taken) {
			os.Exit(75)
		}
		check(err)
		unlock(mutex)
	}
	for ; rounds > 0; rounds-- {
		mutex := locks.NewMutex(name, expiry, redsync.WithTries(1<<30),
			redsync.WithRetryDelay(30*time.Millisecond))
		check(mutex.Lock())
		addOne(path)
		unlock(mutex)
	}
}
