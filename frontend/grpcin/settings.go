package grpcin

import (
	"context"

	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/frontend/ingress"
)

// TraceSetting tells the settings, which are fixed and the same for all models.
func (s *Server) TraceSetting(_ context.Context, q *inference.TraceSettingRequest) (*inference.TraceSettingResponse, error) {
	if err := apart(s.cfg.AdminApart); err != nil {
		return nil, err
	}
	if model := q.GetModelName(); model != "" {
		if _, err := s.cfg.Client.Model(model, ""); err != nil {
			return nil, s.status(model, "", err)
		}
	}
	if len(q.GetSettings()) > 0 {
		return nil, s.status("", "", ingress.FixedSettings())
	}
	m := &inference.TraceSettingResponse{Settings: map[string]*inference.TraceSettingResponse_SettingValue{}}
	for key, value := range ingress.TraceSettings() {
		one := &inference.TraceSettingResponse_SettingValue{}
		switch v := value.(type) {
		case string:
			one.Value = []string{v}
		case []string:
			one.Value = v
		}
		m.Settings[key] = one
	}
	return m, nil
}

// LogSettings tells the settings, which are fixed.
func (s *Server) LogSettings(_ context.Context, q *inference.LogSettingsRequest) (*inference.LogSettingsResponse, error) {
	if err := apart(s.cfg.AdminApart); err != nil {
		return nil, err
	}
	if len(q.GetSettings()) > 0 {
		return nil, s.status("", "", ingress.FixedSettings())
	}
	m := &inference.LogSettingsResponse{Settings: map[string]*inference.LogSettingsResponse_SettingValue{}}
	for key, value := range ingress.LogSettings() {
		one := &inference.LogSettingsResponse_SettingValue{}
		switch v := value.(type) {
		case string:
			one.ParameterChoice = &inference.LogSettingsResponse_SettingValue_StringParam{StringParam: v}
		case bool:
			one.ParameterChoice = &inference.LogSettingsResponse_SettingValue_BoolParam{BoolParam: v}
		case int:
			one.ParameterChoice = &inference.LogSettingsResponse_SettingValue_Uint32Param{Uint32Param: uint32(v)}
		}
		m.Settings[key] = one
	}
	return m, nil
}
