/* The interface of device plug-ins: shared libraries that add a type of device to Thalweg. Plain C, no other header.
 *
 * A plug-in exports one function, `thalweg_device_plugin`, which returns a table: what the type of device is called,
 * how to allocate on a device, copy to and from it, and the kernels that it has. docs/write_a_device.md tells the
 * story.
 *
 * The order of things. A device does what it is given as if in the order in which it was given (a queue): `issue` and
 * the copies put work into the queue and return at once; each work ends by calling its `done` exactly once, from any
 * thread, also from within the call. A kernel's outputs may be passed to the next `issue` before the kernel is done;
 * to the host's memory only `copy_to_host` leads, whose `done` must come after the work that it depends on. A plug-in
 * without a queue of its own computes within `issue` and calls `done` before it returns.
 *
 * Ownership. Memory that was passed to a kernel or a copy is not released, and the host's end of a copy stays where it
 * is, until that work is done. A step that is cancelled does not wait for the device: what is under way goes on, and
 * its `done` must still come.
 *
 * Threads. Any function may be called from any thread, and several at once, for the same device too; `release` and
 * `destroy` also from within a `done`, so no lock that they need may be held there. `close` comes last, alone, and
 * never from within a `done`.
 *
 * Versions. A plug-in works with the version of the interface that it was compiled for. `size` is the size of the
 * struct that the writer knows; members are only ever added at the end.
 */
#ifndef THALWEG_DEVICE_PLUGIN_H_
#define THALWEG_DEVICE_PLUGIN_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define THALWEG_DEVICE_PLUGIN_VERSION 1

/* Element types and error codes have TensorFlow's numbers; these are the common ones. */
enum { TW_FLOAT32 = 1, TW_FLOAT64 = 2, TW_INT32 = 3, TW_INT64 = 9, TW_BOOL = 10, TW_BFLOAT16 = 14, TW_FLOAT16 = 19 };
enum {
  TW_OK = 0,
  TW_INVALID_ARGUMENT = 3,
  TW_RESOURCE_EXHAUSTED = 8,
  TW_UNIMPLEMENTED = 12,
  TW_INTERNAL = 13,
  TW_UNAVAILABLE = 14
};

typedef struct tw_error {
  int32_t code; /* TW_OK: nothing happened */
  char message[508];
} tw_error;

/* Tells the host that a copy has ended; a null error or one with code TW_OK is success. */
typedef void (*tw_done)(void* arg, const tw_error* error);

/* `data` is what `allocate` returned, or the host's memory for a host input; null if there are no elements. */
typedef struct tw_tensor {
  int32_t dtype;
  int32_t rank;
  const int64_t* dims;
  void* data;
  uint64_t bytes;
} tw_tensor;

/* A node that a kernel is made for, valid while `create` runs. */
typedef struct tw_node tw_node;
/* One execution of a kernel. A number rather than a pointer: one that is reported twice or late does no harm. */
typedef uint64_t tw_call;

/* What the host does for plug-ins. Valid as long as the process. */
typedef struct tw_host {
  uint32_t size;

  /* For `create`. Each returns 1 if the node has the attribute and it is of that kind, else 0. */
  const char* (*node_name)(const tw_node* node);
  int32_t (*attr_bool)(const tw_node* node, const char* name, int32_t* value);
  int32_t (*attr_int)(const tw_node* node, const char* name, int64_t* value);
  int32_t (*attr_float)(const tw_node* node, const char* name, double* value);
  int32_t (*attr_type)(const tw_node* node, const char* name, int32_t* value);
  int32_t (*attr_string)(const tw_node* node, const char* name, const char** value, uint64_t* length);
  /* How many elements the list has, of which at most `capacity` are written; -1 if there is no such list. */
  int32_t (*attr_ints)(const tw_node* node, const char* name, int64_t* values, int32_t capacity);

  /* For `issue`, while it runs. Inputs and outputs that do not exist are answered with 0. */
  int32_t (*num_inputs)(tw_call call);
  int32_t (*input)(tw_call call, int32_t index, tw_tensor* tensor);
  /* Allocates an output on the device. On 0 the host knows why: return without calling `done`. */
  int32_t (*allocate_output)(tw_call call, int32_t index, int32_t rank, const int64_t* dims, tw_tensor* tensor);
  /* An output that is an input's memory under a shape of the same size, such as a reshape's. */
  int32_t (*forward_input)(tw_call call, int32_t input, int32_t output, int32_t rank, const int64_t* dims);

  /* Ends a call, once, from any thread. */
  void (*done)(tw_call call, const tw_error* error);
} tw_host;

/* Which element types a kernel takes for a type attribute of the op, such as "T". */
typedef struct tw_types {
  const char* attr;
  const int32_t* dtypes;
  int32_t num_dtypes;
} tw_types;

typedef struct tw_kernel {
  uint32_t size;
  const char* op; /* "MatMul" */
  const tw_types* types;
  int32_t num_types;
  /* Bit i: input i is wanted in the host's memory, because the kernel needs its value to know shapes. */
  uint64_t host_inputs;
  /* Makes what the kernel keeps for one node; may be null. An error fails the compilation of the step. */
  void* (*create)(void* device, const tw_node* node, tw_error* error);
  void (*destroy)(void* device, void* kernel);
  /* Checks the inputs' shapes, allocates every output, and puts the work into the device's queue. */
  void (*issue)(void* device, void* kernel, tw_call call);
} tw_kernel;

typedef struct tw_device_plugin {
  uint32_t version; /* THALWEG_DEVICE_PLUGIN_VERSION */
  uint32_t size;
  const char* type; /* "TOY": capital letters, digits and underscores; devices are then /device:TOY:0 and so on */
  int32_t num_devices;

  /* Opens a device for the process; closed when the last session and the last tensor on it are gone. */
  void* (*open)(int32_t index, const tw_host* host, tw_error* error);
  void (*close)(void* device);
  /* How much memory the device has: the limit unless a session sets a lower one. */
  uint64_t (*memory_bytes)(void* device);

  void* (*allocate)(void* device, uint64_t bytes, tw_error* error);
  void (*release)(void* device, void* memory, uint64_t bytes);
  void (*copy_to_device)(void* device, const void* host, void* memory, uint64_t bytes, tw_done done, void* arg);
  void (*copy_to_host)(void* device, const void* memory, void* host, uint64_t bytes, tw_done done, void* arg);

  const tw_kernel* kernels;
  int32_t num_kernels;
} tw_device_plugin;

/* The one symbol that a plug-in exports. `host_version` is the newest version that the host knows. The table must live
 * as long as the process; null means that the plug-in cannot work here. */
const tw_device_plugin* thalweg_device_plugin(uint32_t host_version);

#ifdef __cplusplus
}
#endif

#endif
