/* XLA's side of a call of a handler on a GPU, for machines without one: builds a call frame by the
 * headers of jaxlib, with a stream and a device of the test's choice. Compiled by
 * tests/jax/test_jax_cuda.py. */
#include "xla/ffi/api/c_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct XLA_FFI_Error {
  char text[2000];
};

struct XLA_FFI_ExecutionContext {
  void *stream;
  int device;
};

static XLA_FFI_Error *create(XLA_FFI_Error_Create_Args *args) {
  XLA_FFI_Error *error = malloc(sizeof *error);
  snprintf(error->text, sizeof error->text, "%d: %s", (int)args->errc, args->message);
  return error;
}

static void message(XLA_FFI_Error_GetMessage_Args *args) {
  args->message = args->error->text;
}

static void destroy(XLA_FFI_Error_Destroy_Args *args) {
  free(args->error);
}

static XLA_FFI_Error *stream(XLA_FFI_Stream_Get_Args *args) {
  args->stream = args->ctx->stream;
  return NULL;
}

static XLA_FFI_Error *device(XLA_FFI_DeviceOrdinal_Get_Args *args) {
  args->device_ordinal = args->ctx->device;
  return NULL;
}

static XLA_FFI_Buffer buffer(void *data, int64_t *elements) {
  XLA_FFI_Buffer made = {XLA_FFI_Buffer_STRUCT_SIZE, NULL, XLA_FFI_DataType_F32, data, 1, elements};
  return made;
}

/* Calls the handler with vectors of fp32 at these addresses: operands, then results. Writes the
 * error into `text`; returns whether there is one. */
int call_handler(XLA_FFI_Handler *handler, void *stream_of_call, int device_of_call, int64_t id,
                 const char *name, uint64_t *addresses, int operands, int results, int64_t elements,
                 char *text, size_t size) {
  XLA_FFI_Api api = {XLA_FFI_Api_STRUCT_SIZE, NULL};
  api.api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
  api.api_version.major_version = XLA_FFI_API_MAJOR;
  api.api_version.minor_version = XLA_FFI_API_MINOR;
  api.XLA_FFI_Error_Create = create;
  api.XLA_FFI_Error_GetMessage = message;
  api.XLA_FFI_Error_Destroy = destroy;
  api.XLA_FFI_Stream_Get = stream;
  api.XLA_FFI_DeviceOrdinal_Get = device;
  XLA_FFI_ExecutionContext context = {stream_of_call, device_of_call};

  XLA_FFI_Buffer buffers[16];
  void *pointers[16];
  XLA_FFI_ArgType arg_types[16];
  XLA_FFI_RetType ret_types[16];
  for (int i = 0; i < operands + results; ++i) {
    buffers[i] = buffer((void *)addresses[i], &elements);
    pointers[i] = &buffers[i];
    arg_types[i] = XLA_FFI_ArgType_BUFFER;
    ret_types[i] = XLA_FFI_RetType_BUFFER;
  }
  XLA_FFI_Scalar number = {XLA_FFI_DataType_S64, &id};
  XLA_FFI_ByteSpan kernel = {name, strlen(name)};
  XLA_FFI_ByteSpan id_name = {"id", 2}, kernel_name = {"kernel", 6};
  XLA_FFI_AttrType attr_types[2] = {XLA_FFI_AttrType_SCALAR, XLA_FFI_AttrType_STRING};
  XLA_FFI_ByteSpan *names[2] = {&id_name, &kernel_name};
  void *attrs[2] = {&number, &kernel};

  XLA_FFI_CallFrame frame = {XLA_FFI_CallFrame_STRUCT_SIZE, NULL, &api, &context,
                             XLA_FFI_ExecutionStage_EXECUTE};
  frame.args = (XLA_FFI_Args){XLA_FFI_Args_STRUCT_SIZE, NULL, operands, arg_types, pointers};
  frame.rets =
      (XLA_FFI_Rets){XLA_FFI_Rets_STRUCT_SIZE, NULL, results, ret_types, pointers + operands};
  frame.attrs = (XLA_FFI_Attrs){XLA_FFI_Attrs_STRUCT_SIZE, NULL, 2, attr_types, names, attrs};
  XLA_FFI_Error *error = handler(&frame);
  if (!error)
    return 0;
  snprintf(text, size, "%s", error->text);
  free(error);
  return 1;
}

/* What the handler says about itself: bits of XLA_FFI_HANDLER_TRAITS_..., -1 where it fails. */
int64_t traits_of(XLA_FFI_Handler *handler) {
  XLA_FFI_Api api = {XLA_FFI_Api_STRUCT_SIZE, NULL};
  api.api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
  api.api_version.major_version = XLA_FFI_API_MAJOR;
  api.api_version.minor_version = XLA_FFI_API_MINOR;
  api.XLA_FFI_Error_Create = create;
  api.XLA_FFI_Error_Destroy = destroy;
  XLA_FFI_Metadata metadata = {XLA_FFI_Metadata_STRUCT_SIZE};
  metadata.api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
  XLA_FFI_Metadata_Extension extension = {
      {XLA_FFI_Metadata_Extension_STRUCT_SIZE, XLA_FFI_Extension_Metadata, NULL}, &metadata};
  XLA_FFI_CallFrame frame = {XLA_FFI_CallFrame_STRUCT_SIZE, &extension.extension_base, &api};
  XLA_FFI_Error *error = handler(&frame);
  if (error) {
    fprintf(stderr, "%s\n", error->text);
    free(error);
    return -1;
  }
  return metadata.traits;
}
