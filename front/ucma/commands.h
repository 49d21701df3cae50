#pragma once

// What each command does. With the lock of Ucma held; errors are the kernel's.

#include <cerrno>
#include <string>

#include "base/result.h"
#include "front/ucma/command.h"
#include "front/ucma/ucma.h"

namespace verbena::front::ucma {

/// The call comes too early or too late.
inline Error wrong_state(const char* wanted) {
  return Error{EINVAL, std::string{"the id must be "} + wanted};
}

// id_commands.cc
Status create_id(Ucma& ucma, const Command& command);
Status destroy_id(Ucma& ucma, const Command& command);
Status migrate_id(Ucma& ucma, const Command& command);
Status set_option(Ucma& ucma, const Command& command);

// address_commands.cc
Status bind_ip(Ucma& ucma, const Command& command);
Status bind(Ucma& ucma, const Command& command);
Status resolve_ip(Ucma& ucma, const Command& command);
Status resolve_addr(Ucma& ucma, const Command& command);
Status resolve_route(Ucma& ucma, const Command& command);
Status resolve_ib_service(Ucma& ucma, const Command& command);

// event_commands.cc
Status write_cm_event(Ucma& ucma, const Command& command);

// query_commands.cc
Status query_route(Ucma& ucma, const Command& command);
Status query(Ucma& ucma, const Command& command);
Status init_qp_attr(Ucma& ucma, const Command& command);

// connection_commands.cc
Status connect(Ucma& ucma, const Command& command);
Status listen(Ucma& ucma, const Command& command);
Status accept(Ucma& ucma, const Command& command);
Status reject(Ucma& ucma, const Command& command);
Status disconnect(Ucma& ucma, const Command& command);
Status notify(Ucma& ucma, const Command& command);

// multicast_commands.cc
Status join_ip_multicast(Ucma& ucma, const Command& command);
Status join_multicast(Ucma& ucma, const Command& command);
Status leave_multicast(Ucma& ucma, const Command& command);

}  // namespace verbena::front::ucma
