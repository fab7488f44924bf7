// Package nets has the networks of the example zoo: ResNet50, MobileNet and an encoder
// like BERT's, as large as one likes, with weights from a seed.
//
// Nobody trained them: they cost what their architectures cost, and their answers mean
// nothing. But their numbers are those of sound networks. Batch normalisation is folded
// into the convolutions; what it would see to is seen to by the draw of the weights:
// each filter sums to zero, so that the positive mean that ReLU leaves is not passed on,
// and has the variance that gives its output a variance of about 1 (weights.go). So
// activations neither grow nor vanish with depth, and the answer depends on the input.
//
// package reference computes the same networks again, without ONNX.
package nets
