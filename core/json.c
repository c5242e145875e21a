#include "core/json.h"

#include <setjmp.h>
#include <stdlib.h>

static _Thread_local int lacked_memory;
static _Thread_local jmp_buf *reading; /* in json_read: where a failed allocation goes */

static void *hook(size_t n)
{
    void *p = malloc(n);
    if (p) return p;
    lacked_memory = 1;
    if (reading) longjmp(*reading, 1);
    return NULL;
}

__attribute__((constructor)) static void set_hook(void) { json_set_alloc_funcs(hook, free); }

json_t *json_read(const char *text, size_t n, size_t flags, json_error_t *why, struct err *e)
{
    json_error_t own;
    jmp_buf here;
    if (setjmp(here)) { /* what jansson held is not freed: nobody knows it any more, and who lacks memory ends the program */
        reading = NULL;
        err_memory(e);
        return NULL;
    }
    reading = &here;
    json_t *j = json_loadb(text, n, flags, &own);
    reading = NULL;
    if (!j) err_set(e, "%s", own.text);
    if (why) *why = own;
    return j;
}

int json_check(struct err *e) { return lacked_memory ? err_memory(e) : 0; }

void json_forget(void) { lacked_memory = 0; }
