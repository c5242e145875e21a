/* hip_options.c: the options that only this backend has, as text (be_config.own). */
#include "backend-hip/hip.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char wait[] = "wait=", halves[] = "halves=", exchange[] = "exchange=",
                  library[] = "library=";

void hip_options_write(const struct hip_options *o, char *out, size_t cap)
{
    snprintf(out, cap, "%s%d %s%d %s%d%s%s%s", wait, o->wait_seconds, halves, o->query_halves,
             exchange, (int)o->exchange, o->library ? " " : "", o->library ? library : "",
             o->library ? o->library : "");
}

/* The number behind NAME, which *at begins with; *at moves behind it and one blank. */
static int number(const char **at, const char *name, int *value)
{
    size_t n = strlen(name);
    char *end;
    if (strncmp(*at, name, n)) return 0;
    long x = strtol(*at + n, &end, 10);
    if (end == *at + n || (*end && *end != ' ') || x < 0 || x > INT_MAX) return 0;
    *value = (int)x;
    *at = end + (*end == ' ');
    return 1;
}

int hip_options_read(struct hip_options *o, const char *text, struct err *e)
{
    *o = (struct hip_options){0};
    for (const char *at = text; at && *at;) {
        int way = HIP_EXCHANGE_AUTO;
        if (number(&at, wait, &o->wait_seconds) || number(&at, halves, &o->query_halves)) continue;
        if (number(&at, exchange, &way) && way <= HIP_EXCHANGE_HOST) {
            o->exchange = (enum hip_exchange)way;
            continue;
        }
        if (strncmp(at, library, sizeof library - 1))
            return err_set(e, "--backend hip: option '%s' is unknown", at);
        o->library = at + sizeof library - 1;
        break;
    }
    return 0;
}
