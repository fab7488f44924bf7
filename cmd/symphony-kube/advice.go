package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// page is what GET /v1/advice answers, as far as it matters here (scheduler/control/api, Advice).
type page struct {
	Scaler string   `json:"scaler"` // who acts
	Groups []advice `json:"groups"`
}

// actsHere is the page's scaler where we are meant: else nothing drains, and what is ordered is
// not counted.
const actsHere = "kubernetes"

// advice is how many replicas (backends) of a type of devices there should be at a scheduler.
type advice struct {
	DeviceType string   `json:"device_type"`
	Scheduler  string   `json:"scheduler"` // empty: the only one
	Action     string   `json:"action"`
	Why        string   `json:"why"` // in words
	Size       int      `json:"size"`
	Remove     []string `json:"remove"` // backends that may be removed: they have nothing left
}

// advisor says what there should be.
type advisor interface {
	Advice(ctx context.Context) ([]advice, error)
}

const (
	callMax   = 10 * time.Second // of a call to the control plane or to the cluster
	answerMax = 4 << 20          // bytes of its answer
)

// httpAdvisor asks the control plane's API.
type httpAdvisor struct {
	url, token string
	http       *http.Client
}

func newAdvisor(address, token string) (advisor, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("-control: %q is no URL of the control plane's API: write http://HOST:8002", address)
	}
	return &httpAdvisor{url: strings.TrimSuffix(address, "/") + "/v1/advice", token: token, http: &http.Client{Timeout: callMax}}, nil
}

// Advice implements advisor.
func (a *httpAdvisor) Advice(ctx context.Context) ([]advice, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url, nil)
	if err != nil {
		return nil, err
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the control plane cannot be asked: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the control plane's answer: %w", err)
	case resp.StatusCode != http.StatusOK: // of several controllers one leads: a new connection may find it
		defer a.http.CloseIdleConnections()
		return nil, fmt.Errorf("the control plane answers %s: %.200s", resp.Status, strings.TrimSpace(string(body)))
	case len(body) > answerMax:
		return nil, errors.New("the control plane's answer is too long")
	}
	var p page
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, fmt.Errorf("the control plane's answer: %w; is %s a control plane of this version?", err, a.url)
	}
	if p.Scaler != actsHere {
		return nil, fmt.Errorf("the controller's scaler is %q: set control.autoscale.scaler to %s, so that it drains what is to go", p.Scaler, actsHere)
	}
	return p.Groups, nil
}
