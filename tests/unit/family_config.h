/* family_config.h: a configuration of few keys, read, for the tests of configurations. */
#ifndef TESTS_UNIT_FAMILY_CONFIG_H
#define TESTS_UNIT_FAMILY_CONFIG_H

#include "convert/hf_config.h"

#include <stdio.h>

static const struct notes quiet = {.quiet = 1};

/* Reads {"architectures": [CLASS], "vocab_size": 9 EXTRA}. */
static int read_class(struct hf_config *c, const char *class, const char *extra, struct err *e)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"architectures\": [\"%s\"], \"vocab_size\": 9%s}", class, extra);
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    int rc = hfc_read(c, j, NULL, &quiet, e);
    json_decref(j);
    return rc;
}

#endif
