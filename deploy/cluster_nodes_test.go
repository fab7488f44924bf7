//go:build k8s

package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// addNodes makes nodes with GPUs, or none, which say that they are ready.
func (c *cluster) addNodes(t *testing.T, prefix string, n, gpus int, product string) {
	t.Helper()
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourcePods: resource.MustParse("110"),
		corev1.ResourceEphemeralStorage: resource.MustParse("4Ti"), "hugepages-2Mi": resource.MustParse("64Gi"), "rdma/hca_shared_devices_a": resource.MustParse("16")}
	labels := map[string]string{}
	if gpus > 0 {
		capacity["nvidia.com/gpu"] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
		labels["nvidia.com/gpu.product"] = product
	}
	for i := range n {
		name := fmt.Sprintf("%s-%d", prefix, i)
		labels["kubernetes.io/hostname"] = name
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if gpus > 0 {
			node.Spec.Taints = []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}
		}
		if _, err := c.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		now := metav1.Now()
		status, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{Capacity: capacity, Allocatable: capacity, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now, Reason: "Test"}}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
}

// addRuntime makes the RuntimeClass that pods with GPUs name.
func (c *cluster) addRuntime(t *testing.T, name string) {
	t.Helper()
	if _, err := c.client.NodeV1().RuntimeClasses().Create(t.Context(), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: name}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// addVolumes makes volumes that claims without a class are bound to.
func (c *cluster) addVolumes(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("volume-%d", i)}, Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}}}}
		if _, err := c.client.CoreV1().PersistentVolumes().Create(t.Context(), v, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// kubelet stands in for those of all nodes until the test ends: pods that were bound run and are ready;
// those that shall go are gone.
func (c *cluster) kubelet(t *testing.T) {
	t.Helper()
	aside(t, func(ctx context.Context) {
		for ctx.Err() == nil {
			pods, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			if err == nil {
				for i := range pods.Items {
					c.bringAbout(ctx, &pods.Items[i])
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

// bringAbout is what a kubelet does with one pod. What fails is tried again at the next look.
func (c *cluster) bringAbout(ctx context.Context, p *corev1.Pod) {
	switch {
	case p.DeletionTimestamp != nil && p.Spec.NodeName != "":
		now := int64(0)
		_ = c.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID}})
	case p.Spec.NodeName != "" && p.Status.Phase == corev1.PodPending:
		_, _ = c.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType,
			[]byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"},{"type":"ContainersReady","status":"True"},{"type":"Initialized","status":"True"}]}}`), metav1.PatchOptions{}, "status")
	}
}

// ready lists a namespace's pods that run and are ready, by name, with their nodes.
func (c *cluster) ready(ctx context.Context, namespace, selector string) (map[string]string, error) {
	pods, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, p := range pods.Items {
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				out[p.Name] = p.Spec.NodeName
			}
		}
	}
	return out, nil
}

// awaitReady waits until just so many are.
func (c *cluster) awaitReady(t *testing.T, namespace, selector string, n int) map[string]string {
	t.Helper()
	var out map[string]string
	await(t, fmt.Sprintf("%d pods of %s in %s", n, selector, namespace), func() error {
		var err error
		if out, err = c.ready(t.Context(), namespace, selector); err == nil && len(out) != n {
			err = fmt.Errorf("%d are ready: %v", len(out), out)
		}
		return err
	})
	return out
}

// namespace makes one.
func (c *cluster) namespace(t *testing.T, name string) {
	t.Helper()
	if _, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	await(t, "the service account of "+name, func() error {
		_, err := c.client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}
