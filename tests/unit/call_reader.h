/* call_reader.h: an answer, read. */
#ifndef TESTS_UNIT_CALL_READER_H
#define TESTS_UNIT_CALL_READER_H

#include "core/text/toolcalls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct toolcalls read_answer(const struct toolcalls_source *s, const char *text, size_t n)
{
    struct toolcalls t;
    struct err e = {0};
    if (toolcalls_read(&t, s, text, n, &e)) print_message("%s\n", e.msg);
    assert_int_equal(e.msg[0], 0);
    return t;
}

#endif
