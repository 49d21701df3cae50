/* thefts.h for programs in other languages. */
#include "thefts.h"

__attribute__((visibility("default"))) int run_thefts(int rounds);

/* How many there were. Ends the process where one was not seen. */
int run_thefts(int rounds) {
  struct thefts* t = open_thefts();
  steal(t, rounds);
  close_thefts(t);
  return rounds * kTheftCount;
}

#ifdef WITH_JNI
#include <jni.h>

JNIEXPORT jint JNICALL Java_FaultTraffic_thefts(JNIEnv* env, jclass class, jint rounds);
jint Java_FaultTraffic_thefts(JNIEnv* env, jclass class, jint rounds) {
  (void)env, (void)class;
  return run_thefts(rounds);
}
#endif
