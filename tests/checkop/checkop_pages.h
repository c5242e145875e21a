/* checkop_pages.h: what a mutant (checkop_mutate.c) breaks in the pages of integers that a step has
 * stored, in the CPU's layout. Must not know: which mutants there are. */
#ifndef TESTS_CHECKOP_PAGES_H
#define TESTS_CHECKOP_PAGES_H

#include "core/step/backend.h"
#include "core/step/stepwise.h"

struct page_fault {
    enum kv_type kv;
    /* KV_INT8: the last row's last head gets the scale of its first one */
    enum { FAULT_NO_SCALE, FAULT_KEY_SCALE, FAULT_VALUE_SCALE } scale;
    /* KV_INT4: a byte in this tenth of the first head of each page that the step fills; -1: none */
    int tenth;
};

/* Behind OP_ROPE_STORE. */
void break_pages(struct page_fault f, struct be *be, const struct backend *fns,
                 const struct stepwise_call *c);

#endif
