// The calls of librdmacm, and the verbs beside those of `verbena devices`, found when they are
// called: see tools/verbena/verbs_by_name.cc.

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <stdexcept>

#undef ibv_reg_mr  // a macro in front of the function

namespace {

template <typename Call>
Call* find_in(const char* file, const char* name) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  void* const found = library != nullptr ? dlsym(library, name) : nullptr;
  if (found == nullptr) throw std::runtime_error{dlerror()};
  return reinterpret_cast<Call*>(found);
}

}  // namespace

// Each looks once.
#define VERB(call)                                                                \
  [] {                                                                            \
    static auto* const found = find_in<decltype(call)>("libibverbs.so.1", #call); \
    return found;                                                                 \
  }()
#define CM(call)                                                                 \
  [] {                                                                           \
    static auto* const found = find_in<decltype(call)>("librdmacm.so.1", #call); \
    return found;                                                                \
  }()

ibv_pd* ibv_alloc_pd(ibv_context* context) { return VERB(ibv_alloc_pd)(context); }
int ibv_dealloc_pd(ibv_pd* pd) { return VERB(ibv_dealloc_pd)(pd); }
ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  return VERB(ibv_reg_mr)(pd, address, length, access);
}
int ibv_dereg_mr(ibv_mr* mr) { return VERB(ibv_dereg_mr)(mr); }
ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return VERB(ibv_create_comp_channel)(context);
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return VERB(ibv_destroy_comp_channel)(channel);
}
ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                      ibv_comp_channel* channel, int vector) {
  return VERB(ibv_create_cq)(context, entries, cq_context, channel, vector);
}
int ibv_destroy_cq(ibv_cq* cq) { return VERB(ibv_destroy_cq)(cq); }
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  return VERB(ibv_get_cq_event)(channel, cq, cq_context);
}
void ibv_ack_cq_events(ibv_cq* cq, unsigned count) { VERB(ibv_ack_cq_events)(cq, count); }
const char* ibv_wc_status_str(ibv_wc_status status) { return VERB(ibv_wc_status_str)(status); }

rdma_event_channel* rdma_create_event_channel() { return CM(rdma_create_event_channel)(); }
void rdma_destroy_event_channel(rdma_event_channel* channel) {
  CM(rdma_destroy_event_channel)(channel);
}
int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                   rdma_port_space space) {
  return CM(rdma_create_id)(channel, id, context, space);
}
int rdma_destroy_id(rdma_cm_id* id) { return CM(rdma_destroy_id)(id); }
int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) { return CM(rdma_bind_addr)(id, address); }
int rdma_listen(rdma_cm_id* id, int backlog) { return CM(rdma_listen)(id, backlog); }
int rdma_resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int milliseconds) {
  return CM(rdma_resolve_addr)(id, source, destination, milliseconds);
}
int rdma_resolve_route(rdma_cm_id* id, int milliseconds) {
  return CM(rdma_resolve_route)(id, milliseconds);
}
int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  return CM(rdma_create_qp)(id, pd, attributes);
}
void rdma_destroy_qp(rdma_cm_id* id) { CM(rdma_destroy_qp)(id); }
int rdma_connect(rdma_cm_id* id, rdma_conn_param* parameters) {
  return CM(rdma_connect)(id, parameters);
}
int rdma_accept(rdma_cm_id* id, rdma_conn_param* parameters) {
  return CM(rdma_accept)(id, parameters);
}
int rdma_reject(rdma_cm_id* id, const void* data, std::uint8_t length) {
  return CM(rdma_reject)(id, data, length);
}
int rdma_disconnect(rdma_cm_id* id) { return CM(rdma_disconnect)(id); }
int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  return CM(rdma_get_cm_event)(channel, event);
}
int rdma_ack_cm_event(rdma_cm_event* event) { return CM(rdma_ack_cm_event)(event); }
const char* rdma_event_str(rdma_cm_event_type type) { return CM(rdma_event_str)(type); }
