// Looks its arguments up: prints each with its addresses, or with how many there are if they are more than four.
package main

import (
	"fmt"
	"net"
	"os"
	"sort"
)

func main() {
	for _, name := range os.Args[1:] {
		found, err := net.LookupHost(name)
		if err != nil {
			fmt.Println(name, err)
			os.Exit(1)
		}
		sort.Strings(found)
		if len(found) > 4 {
			fmt.Println(name, len(found))
		} else {
			fmt.Println(name, found)
		}
	}
}
