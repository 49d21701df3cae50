// The verbs that the tool calls, found when they are called: it must start where no rdma-core is
// installed, to say so or to bring its own. By then it runs with the preload library.

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <stdexcept>

#undef ibv_query_port  // a macro in front of the function

namespace {

template <typename Verb>
Verb* find(const char* name) {
  static void* const library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const found = library != nullptr ? dlsym(library, name) : nullptr;
  if (found == nullptr) throw std::runtime_error{dlerror()};
  return reinterpret_cast<Verb*>(found);
}

}  // namespace

#define FOUND(verb) find<decltype(verb)>(#verb)

ibv_device** ibv_get_device_list(int* count) { return FOUND(ibv_get_device_list)(count); }

void ibv_free_device_list(ibv_device** list) { FOUND(ibv_free_device_list)(list); }

const char* ibv_get_device_name(ibv_device* device) { return FOUND(ibv_get_device_name)(device); }

ibv_context* ibv_open_device(ibv_device* device) { return FOUND(ibv_open_device)(device); }

int ibv_close_device(ibv_context* context) { return FOUND(ibv_close_device)(context); }

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  return FOUND(ibv_query_device)(context, attributes);
}

int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes) {
  return FOUND(ibv_query_port)(context, port, attributes);
}

int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  return FOUND(ibv_query_gid)(context, port, index, gid);
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_size) {
  return FOUND(_ibv_query_gid_ex)(context, port, index, entry, flags, entry_size);
}
