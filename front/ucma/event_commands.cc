// Events that the program sends to itself.

#include <cerrno>
#include <cstring>

#include "front/ucma/commands.h"
#include "front/ucma/newer_commands.h"

namespace verbena::front::ucma {

/// librdmacm resolves names itself, and tells by such an event that it is done.
Status write_cm_event(Ucma& ucma, const Command& command) {
  const auto c = command.as<WriteCmEvent>();
  const auto event = static_cast<EventType>(c.event);
  if (event != EventType::user && event != EventType::internal) {
    return Error{EINVAL, "event " + std::to_string(c.event) + " is neither USER nor INTERNAL"};
  }
  auto id = ucma.find_id(command.channel, c.id);
  if (!id) return id.error();
  QueuedEvent queued{.id = (*id)->handle};
  queued.event.uid = (*id)->uid;
  queued.event.id = (*id)->handle;
  queued.event.event = c.event;
  queued.event.status = c.status;
  std::memcpy(&queued.event.param, &c.argument, sizeof c.argument);
  command.channel.add(queued);
  return Ok{};
}

}  // namespace verbena::front::ucma
