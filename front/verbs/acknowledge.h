#pragma once

// Events that a program took and has to acknowledge before their object goes.

#include <pthread.h>

#include <cstdint>

namespace verbena::front {

/// What destroying does about events that the program took and hasn't acknowledged.
enum class Unacked { awaited, ignored };

/// `acknowledged` is one of the object's own counters.
template <typename Object>
void await_acknowledgements(Object& object, const std::uint32_t& acknowledged, unsigned taken) {
  pthread_mutex_lock(&object.mutex);
  while (acknowledged != taken) pthread_cond_wait(&object.cond, &object.mutex);
  pthread_mutex_unlock(&object.mutex);
}

template <typename Object>
void acknowledge(Object& object, std::uint32_t& acknowledged, unsigned events) {
  pthread_mutex_lock(&object.mutex);
  acknowledged += events;
  pthread_cond_signal(&object.cond);
  pthread_mutex_unlock(&object.mutex);
}

}  // namespace verbena::front
