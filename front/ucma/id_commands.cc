// Ids: made, destroyed, moved between channels, and their options.

#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>

#include <cerrno>

#include "front/ucma/commands.h"
#include "front/ucma/descriptors.h"
#include "front/ucma/program_copy.h"

namespace verbena::front::ucma {

namespace {

Result<cm::Transport> transport_of(unsigned qp_type) {
  switch (qp_type) {
    case IBV_QPT_RC:
    case IBV_QPT_UD:  // datagrams have none
      return cm::Transport::rc;
    case IBV_QPT_UC:
      return cm::Transport::uc;
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return cm::Transport::xrc;
    default:
      return Error{EINVAL, "qp_type " + std::to_string(qp_type) + " is not RC, UC, UD or XRC"};
  }
}

/// In the port spaces of old the type follows from the space.
Result<unsigned> qp_type_of(unsigned space, unsigned asked) {
  switch (space) {
    case RDMA_PS_TCP:
      return static_cast<unsigned>(IBV_QPT_RC);
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
      return static_cast<unsigned>(IBV_QPT_UD);
    case RDMA_PS_IB:
      return asked;
    default:
      return Error{EINVAL, "port space " + std::to_string(space) + " is not known to rdma_cm"};
  }
}

template <typename T>
Result<T> option_value(const rdma_ucm_set_option& c) {
  if (c.optlen != sizeof(T)) {
    return Error{EINVAL, "option " + std::to_string(c.optname) + " has " +
                             std::to_string(sizeof(T)) + " bytes, not " + std::to_string(c.optlen)};
  }
  T value{};
  if (auto read = copy_from_program(&value, c.optval, sizeof value); !read) return read.error();
  return value;
}

Status set_id_option(Id& id, const rdma_ucm_set_option& c) {
  switch (c.optname) {
    case RDMA_OPTION_ID_TOS: {
      auto value = option_value<std::uint8_t>(c);
      if (!value) return value.error();
      id.traffic_class = *value;
      return Ok{};
    }
    case RDMA_OPTION_ID_ACK_TIMEOUT: {
      auto value = option_value<std::uint8_t>(c);
      if (!value) return value.error();
      if (*value > 31)
        return Error{EINVAL, "the ACK timeout " + std::to_string(*value) + " must be 0 to 31"};
      id.ack_timeout = *value;
      return Ok{};
    }
    case RDMA_OPTION_ID_REUSEADDR: {
      auto value = option_value<int>(c);
      if (!value) return value.error();
      // As in the kernel: it may be set late, though only binding asks for it.
      if (id.state == IdState::listening || (*value == 0 && id.state != IdState::idle)) {
        return Error{EINVAL, "too late: the id is in use"};
      }
      id.reuse = *value != 0;
      return Ok{};
    }
    case RDMA_OPTION_ID_AFONLY: {
      auto value = option_value<int>(c);
      if (!value) return value.error();
      if (id.state != IdState::idle && id.state != IdState::bound) {
        return Error{EINVAL, "too late: the id is in use"};
      }
      id.one_family = *value != 0;
      return Ok{};
    }
    default:
      return Error{ENOSYS, "RDMA_OPTION_ID has no option " + std::to_string(c.optname)};
  }
}

}  // namespace

Status create_id(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_create_id>();
  const auto type = qp_type_of(c.ps, c.qp_type);
  if (!type) return type.error();
  const auto transport = transport_of(*type);
  if (!transport) return transport.error();
  if (auto nic = ucma.nic(); !nic) return nic.error();
  if (ucma.full()) return Error{ENOMEM, "too many ids"};

  Id& id = ucma.create_id(command.channel);
  id.uid = c.uid;
  id.space = static_cast<PortSpace>(c.ps);
  id.datagrams = *type == IBV_QPT_UD;
  id.transport = *transport;
  id.qp_type = c.qp_type;
  auto answered = command.answer(c.response, rdma_ucm_create_id_resp{.id = id.handle});
  if (!answered) ucma.destroy_id(id);
  return answered;
}

Status destroy_id(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_destroy_id>();
  auto id = ucma.find_id(command.channel, c.id);
  if (!id) return id.error();
  const rdma_ucm_destroy_id_resp response{.events_reported = (*id)->events_reported};
  ucma.destroy_id(**id);
  if (command.channel.events.empty()) command.channel.quieten(command.fd);
  return command.answer(c.response, response);
}

Status migrate_id(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_migrate_id>();
  const int from_fd = static_cast<int>(c.fd);
  const auto inode = channel_inode(from_fd);
  Channel* const from = inode ? ucma.find_channel(*inode) : nullptr;
  if (from == nullptr) {
    return Error{EINVAL, "descriptor " + std::to_string(c.fd) + " is not an event channel"};
  }
  auto id = ucma.find_id(*from, c.id);
  if (!id) return id.error();
  const rdma_ucm_migrate_resp response{.events_reported = (*id)->events_reported};
  if (auto answered = command.answer(c.response, response); !answered) return answered;
  if (from == &command.channel) return Ok{};
  if (auto moved = ucma.move_in_kernel(**id, command.channel); !moved) return moved;
  // Its events move with it, in order, and so do the requests that they bring.
  from->remove([&](const QueuedEvent& e) { return e.id == (*id)->handle; },
               [&](const QueuedEvent& e) {
                 if (e.request) ucma.move(*e.request, command.channel);
                 command.channel.add(e);
               });
  if (from->events.empty()) from->quieten(from_fd);
  (*id)->channel = &command.channel;
  return Ok{};
}

Status set_option(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_set_option>();
  auto id = ucma.find_id(command.channel, c.id);
  if (!id) return id.error();
  if (c.level == RDMA_OPTION_ID) return set_id_option(**id, c);
  return Error{ENOSYS, "there are no options of level " + std::to_string(c.level) +
                           ": paths of RoCE follow from the addresses"};
}

}  // namespace verbena::front::ucma
