// An HTTP server and its client, in Go.
//
//	web serve PORT                /file is the file `file`, /digest the SHA-256 of a request's body
//	web fetch BASE AT-ONCE TIMES  both of them, compared with the file `file`
//	web pass PORT ADDRESS         passes connections on; between two of them Go uses splice(2)
package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(port string) {
	// By sendfile(2).
	http.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "file")
	})
	http.HandleFunc("/digest", func(w http.ResponseWriter, r *http.Request) {
		hash := sha256.New()
		_, err := io.Copy(hash, r.Body)
		check(err)
		fmt.Fprintf(w, "%x", hash.Sum(nil))
	})
	// Without an address it listens at `::`, for both families.
	listener, err := net.Listen("tcp", ":"+port)
	check(err)
	fmt.Println("ready", listener.Addr())
	check(http.Serve(listener, nil))
}

func ask(base string, file []byte) error {
	answer, err := http.Get(base + "/file")
	if err != nil {
		return err
	}
	got, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil {
		return err
	}
	if !bytes.Equal(got, file) {
		return fmt.Errorf("%d other bytes", len(got))
	}
	answer, err = http.Post(base+"/digest", "application/octet-stream", bytes.NewReader(file))
	if err != nil {
		return err
	}
	told, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if right := fmt.Sprintf("%x", sha256.Sum256(file)); err == nil && string(told) != right {
		return fmt.Errorf("the server got %s", told)
	}
	return err
}

func fetch(base string, atOnce, times int) {
	file, err := os.ReadFile("file")
	check(err)
	var all sync.WaitGroup
	for at := 0; at < atOnce; at++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for round := 0; round < times; round++ {
				check(ask(base, file))
			}
		}()
	}
	all.Wait()
	fmt.Println("fetched", 2*atOnce*times)
}

func pass(port, address string) {
	listener, err := net.Listen("tcp", ":"+port)
	check(err)
	fmt.Println("ready")
	for {
		near, err := listener.Accept()
		check(err)
		go func() {
			far, err := net.Dial("tcp", address)
			check(err)
			go func() {
				io.Copy(far, near)
				far.(*net.TCPConn).CloseWrite()
			}()
			io.Copy(near, far)
			near.Close()
			far.Close()
		}()
	}
}

func main() {
	switch os.Args[1] {
	case "serve":
		serve(os.Args[2])
	case "fetch":
		atOnce, err := strconv.Atoi(os.Args[3])
		check(err)
		times, err := strconv.Atoi(os.Args[4])
		check(err)
		fetch(os.Args[2], atOnce, times)
	case "pass":
		pass(os.Args[2], os.Args[3])
	}
}
