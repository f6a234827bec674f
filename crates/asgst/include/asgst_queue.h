/* ASGST, the safepoint queue of the iterator generation (2023). */
#ifndef ASGST_QUEUE_H
#define ASGST_QUEUE_H

#include "asgst_iterator.h"

#endif
