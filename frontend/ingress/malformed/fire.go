package malformed

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Case is one bad request.
type Case struct {
	Name   string
	Status int    // wanted
	Text   string // wanted in the error's text
	// Write sends the request. An error ends it quietly: a server that has
	// refused may have closed. The answer is read at the same time.
	Write func(w io.Writer) error
	// Slow cases take as long as the server's limits on slow senders.
	Slow bool
	// Half closes the sending half after Write, as a client that dies.
	Half bool
	// Ends: nothing may come after the answer but the connection's end.
	Ends bool
}

// reasonHeader must be on every refusal.
const reasonHeader = "X-Symphony-Reason"

// Fire sends a case to address and returns what is wrong with the answer.
func Fire(address string, c Case, patience time.Duration) error {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		err := c.Write(conn)
		if half, ok := conn.(*net.TCPConn); ok && c.Half && err == nil {
			err = half.CloseWrite()
		}
		sent <- err
	}()
	err = check(c, conn)
	conn.Close()
	<-sent
	return err
}

func check(c Case, r io.Reader) error {
	in := bufio.NewReader(r)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return fmt.Errorf("no answer: %w; want %d with %q", err, c.Status, c.Text)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("answer %d is cut: %w", resp.StatusCode, err)
	}
	var document struct{ Error string }
	err = json.Unmarshal(body, &document)
	switch {
	case resp.StatusCode != c.Status:
		return fmt.Errorf("answer %d %s; want %d with %q", resp.StatusCode, body, c.Status, c.Text)
	case err != nil:
		return fmt.Errorf("answer %d %q is not JSON: %w", resp.StatusCode, body, err)
	case !strings.Contains(document.Error, c.Text):
		return fmt.Errorf("error %q lacks %q", document.Error, c.Text)
	case resp.Header.Get(reasonHeader) == "":
		return errors.New("no header " + reasonHeader)
	case c.Ends:
		return ends(in)
	}
	return nil
}

// ends reports what comes after an answer that must be the connection's last.
func ends(r io.Reader) error {
	more, err := io.ReadAll(r)
	var timeout net.Error
	switch {
	case len(more) > 0:
		return fmt.Errorf("what followed the request was answered: %.80q", more)
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("the connection was left open")
	}
	return nil // it may be reset: the server need not read what follows
}
