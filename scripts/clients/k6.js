// k6's HTTP and gRPC clients against a running Symphony. -e WHAT=http: inferences as JSON and as binary
// tensors; grpc: calls, their messages by reflection; stream: five inferences in one stream. Each output is
// compared with what the emulated device answers, its input. The thresholds fail if any check does.
import http from 'k6/http';
import grpc from 'k6/net/grpc';
import encoding from 'k6/encoding';
import { check } from 'k6';

const { HTTP, GRPC, MODEL, WHAT, SUMMARY } = __ENV;
const thresholds = { checks: ['rate==1'], iterations: ['count==1000'] };
if (WHAT === 'http') thresholds.http_req_failed = ['rate==0'];
export const options = {
  scenarios: { one: { executor: 'shared-iterations', exec: WHAT, vus: 10, iterations: 1000, maxDuration: '5m' } },
  thresholds,
};

const service = 'inference.GRPCInferenceService/';
const client = new grpc.Client();
let connected = false;

// mine is an input that no other iteration of any user has.
function mine() {
  return Array.from({ length: 8 }, (_, k) => __VU * 16384 + __ITER * 8 + k);
}

function same(got, want) {
  return !!got && got.length === want.length && want.every((v, k) => got[k] === v);
}

export { ofHTTP as http, ofGRPC as grpc, ofStream as stream };

function ofHTTP() {
  const url = `http://${HTTP}/v2/models/${MODEL}/infer`;
  const x = mine();
  const plain = http.post(url, JSON.stringify({ inputs: [{ name: 'input', datatype: 'FP32', shape: [1, 8], data: x }] }));
  check(plain, { 'JSON: 200': (r) => r.status === 200, 'JSON: the output is its own': (r) => r.status === 200 && same(r.json('outputs.0.data'), x) });

  const head = JSON.stringify({
    inputs: [{ name: 'input', datatype: 'FP32', shape: [1, 8], parameters: { binary_data_size: 32 } }],
    parameters: { binary_data_output: true },
  });
  const body = new Uint8Array(head.length + 32);
  for (let k = 0; k < head.length; k++) body[k] = head.charCodeAt(k);
  body.set(new Uint8Array(Float32Array.from(x).buffer), head.length);
  const binary = http.post(url, body.buffer, {
    headers: { 'Inference-Header-Content-Length': String(head.length), 'Content-Type': 'application/octet-stream' },
    responseType: 'binary',
  });
  check(binary, {
    'binary: 200': (r) => r.status === 200,
    'binary: the output is its own': (r) => r.status === 200 && same(floats(r.body.slice(Number(r.headers['Inference-Header-Content-Length']))), x),
  });
}

function floats(buffer) {
  return Array.from(new Float32Array(buffer));
}

function connect() {
  if (connected) return;
  client.connect(GRPC, { plaintext: true, reflect: true });
  connected = true;
}

function question(x) {
  return { modelName: MODEL, inputs: [{ name: 'input', datatype: 'FP32', shape: [1, 8], contents: { fp32Contents: x } }] };
}

function output(message) {
  return message && message.rawOutputContents && floats(encoding.b64decode(message.rawOutputContents[0]));
}

function ofGRPC() {
  connect();
  const x = mine();
  const r = client.invoke(service + 'ModelInfer', question(x));
  check(r, { 'OK': () => r && r.status === grpc.StatusOK, 'the output is its own': () => same(output(r.message), x) });
}

function ofStream() {
  connect();
  const n = 5;
  let good = 0;
  const x = Array.from({ length: n }, (_, i) => mine().map((v) => v + i * 0.125));
  const stream = new grpc.Stream(client, service + 'ModelStreamInfer');
  let at = 0;
  stream.on('data', (m) => {
    if (!m.errorMessage && same(output(m.inferResponse), x[at])) good++; // a stream answers in order
    at++;
  });
  stream.on('error', () => {});
  stream.on('end', () => check(good, { 'all outputs of the stream are its own': () => good === n }));
  for (const v of x) stream.write(question(v));
  stream.end();
}

export function handleSummary(data) {
  return { [SUMMARY]: JSON.stringify(data) };
}
