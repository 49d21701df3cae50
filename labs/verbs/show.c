/* Requests and completions, field by field. A dash: the field means nothing there. */

#include <arpa/inet.h>
#include <stdio.h>

#include "labs/verbs/verbs.h"

static const char* name_of_request(enum ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
      return "IBV_WR_SEND";
    case IBV_WR_SEND_WITH_IMM:
      return "IBV_WR_SEND_WITH_IMM";
    case IBV_WR_RDMA_WRITE:
      return "IBV_WR_RDMA_WRITE";
    case IBV_WR_RDMA_READ:
      return "IBV_WR_RDMA_READ";
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return "IBV_WR_ATOMIC_FETCH_AND_ADD";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return "IBV_WR_ATOMIC_CMP_AND_SWP";
    default:
      return "another";
  }
}

/* Of another enumeration than that of requests: a SEND is 2 there, and 0 here. */
static const char* name_of_completion(enum ibv_wc_opcode opcode) {
  switch (opcode) {
    case IBV_WC_SEND:
      return "IBV_WC_SEND";
    case IBV_WC_RDMA_WRITE:
      return "IBV_WC_RDMA_WRITE";
    case IBV_WC_RDMA_READ:
      return "IBV_WC_RDMA_READ";
    case IBV_WC_FETCH_ADD:
      return "IBV_WC_FETCH_ADD";
    case IBV_WC_COMP_SWAP:
      return "IBV_WC_COMP_SWAP";
    case IBV_WC_RECV:
      return "IBV_WC_RECV";
    default:
      return "another";
  }
}

static void show_pieces(const struct ibv_sge* list, int count) {
  for (int i = 0; i < count; ++i) {
    lab_say("           sg_list[%d]  .addr=%#jx .length=%u .lkey=%#x", i, (uintmax_t)list[i].addr,
            list[i].length, list[i].lkey);
  }
}

void verbs_show_send(const struct verbs_side* side, const struct ibv_send_wr* request) {
  lab_say("   %-5s ibv_send_wr  .wr_id=%ju .next=%s .num_sge=%d .opcode=%d (%s)", side->name,
          (uintmax_t)request->wr_id, request->next ? "another" : "NULL", request->num_sge,
          request->opcode, name_of_request(request->opcode));
  lab_say("                      .send_flags=%u%s", request->send_flags,
          request->send_flags & IBV_SEND_SIGNALED ? " (IBV_SEND_SIGNALED)" : " (unsignalled)");
  show_pieces(request->sg_list, request->num_sge);
  switch (request->opcode) {
    case IBV_WR_SEND_WITH_IMM:
      lab_say("           imm_data     %#010x in host order", ntohl(request->imm_data));
      break;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
      lab_say("           wr.rdma      .remote_addr=%#jx .rkey=%#x",
              (uintmax_t)request->wr.rdma.remote_addr, request->wr.rdma.rkey);
      break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      lab_say("           wr.atomic    .remote_addr=%#jx .rkey=%#x .compare_add=%ju .swap=%ju",
              (uintmax_t)request->wr.atomic.remote_addr, request->wr.atomic.rkey,
              (uintmax_t)request->wr.atomic.compare_add, (uintmax_t)request->wr.atomic.swap);
      break;
    default:
      break;
  }
}

void verbs_show_recv(const struct verbs_side* side, const struct ibv_recv_wr* request) {
  lab_say("   %-5s ibv_recv_wr  .wr_id=%ju .next=%s .num_sge=%d", side->name,
          (uintmax_t)request->wr_id, request->next ? "another" : "NULL", request->num_sge);
  show_pieces(request->sg_list, request->num_sge);
}

void verbs_show_completion(const struct verbs_side* side, const struct ibv_wc* done) {
  lab_say("   %-5s ibv_wc       .wr_id=%ju .status=%d (%s) .qp_num=%#x", side->name,
          (uintmax_t)done->wr_id, done->status, ibv_wc_status_str(done->status), done->qp_num);
  if (done->status != IBV_WC_SUCCESS) { /* then only these four are valid */
    lab_say("                      .vendor_err=%#x .opcode=- .byte_len=- .imm_data=- .wc_flags=-",
            done->vendor_err);
    return;
  }
  const bool receive = (done->opcode & IBV_WC_RECV) != 0;
  const bool brings_bytes = receive || done->opcode == IBV_WC_RDMA_READ ||
                            done->opcode == IBV_WC_FETCH_ADD || done->opcode == IBV_WC_COMP_SWAP;
  const bool has_imm = receive && (done->wc_flags & IBV_WC_WITH_IMM) != 0;
  char length[16] = "-", imm[16] = "-", flags[48] = "-";
  if (brings_bytes) snprintf(length, sizeof length, "%u", done->byte_len);
  if (has_imm) snprintf(imm, sizeof imm, "%#010x", ntohl(done->imm_data));
  if (receive) {
    snprintf(flags, sizeof flags, "%u%s%s", done->wc_flags,
             done->wc_flags & IBV_WC_GRH ? " (IBV_WC_GRH)" : "",
             has_imm ? " (IBV_WC_WITH_IMM)" : "");
  }
  lab_say("                      .vendor_err=- .opcode=%d (%s) .byte_len=%s", done->opcode,
          name_of_completion(done->opcode), length);
  lab_say("                      .imm_data=%s .wc_flags=%s", imm, flags);
  /* These are for datagrams, and pkey_index is for QP 1. */
  lab_say("                      .src_qp=- .pkey_index=- .slid=- .sl=- .dlid_path_bits=-");
}
