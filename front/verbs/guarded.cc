#include "front/verbs/guarded.h"

#include <exception>
#include <new>

#include "host/log.h"

namespace verbena::front {

int report(const char* call, const Error& error) noexcept {
  try {
    if (!error.message.empty()) host::log(host::LogLevel::warn, "{}: {}", call, error.message);
  } catch (...) {  // no memory for the line: the code must do
  }
  errno = error.code;
  return error.code;
}

int report_exception(const char* call) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return ENOMEM;
  } catch (const std::exception& e) {
    return report(call, Error{EIO, e.what()});
  } catch (...) {
    return report(call, Error{EIO, "an exception of an unknown type"});
  }
}

}  // namespace verbena::front
