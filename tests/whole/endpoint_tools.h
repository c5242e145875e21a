/* endpoint_tools.h: what endpoints.c and fields.c, which alone include it, have in common: batches
 * over models/demo, and parts of their answers. */
#ifndef TESTS_WHOLE_ENDPOINT_TOOLS_H
#define TESTS_WHOLE_ENDPOINT_TOOLS_H

#include "tests/harness.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char run_bin[512], convert_bin[512], dir[] = "/tmp/opt4gptq-endpoints-XXXXXX", demo[300],
                                            in[300], out[300], out2[300];

#define RUN(p, model, ...)                                                                         \
    process_run(p, (char *[]){run_bin, "-m", model, "-t", "1", __VA_ARGS__, NULL}, NULL)

static void remove_outputs(void) { shell_code("rm -f %s* %s*", out, out2); }

/* The body of the answer to custom_id ID in a file; a new reference or NULL. */
static json_t *body_of(const char *path, const char *id)
{
    size_t n;
    char *text = read_file(path, &n);
    json_t *found = NULL;
    for (const char *at = text; at && *at && !found;) {
        json_t *r = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        const char *name = json_string_value(json_object_get(r, "custom_id"));
        if (name && !strcmp(name, id))
            found = json_incref(json_object_get(json_object_get(r, "response"), "body"));
        json_decref(r);
        at = strchr(at, '\n');
        if (at) at++;
    }
    free(text);
    return found;
}

static const json_t *first(const json_t *body, const char *list)
{
    return json_array_get(json_object_get(body, list), 0);
}

static double number(const json_t *v) { return json_number_value(v); }

static void batch(const char *lines, const char *option, const char *value)
{
    struct process p;
    remove_outputs();
    write_file(in, lines, strlen(lines));
    RUN(&p, demo, "-i", in, "-o", out, "--temp", "0", (char *)option, (char *)value);
    check(p.code == 0, "a batch", &p);
    process_free(&p);
}

#define ASK(id, more)                                                                              \
    "{\"custom_id\":\"" id "\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"Once upon a "    \
    "time\",\"max_tokens\":20,\"return_token_ids\":true," more "}}\n"

/* Converts models/demo. */
static void begin(const char *build)
{
    if (!mkdtemp(dir)) exit(2);
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", build);
    snprintf(convert_bin, sizeof convert_bin, "%s/opt4gptq-convert", build);
    snprintf(demo, sizeof demo, "%s/demo.safetensors", dir);
    snprintf(in, sizeof in, "%s/in.jsonl", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    snprintf(out2, sizeof out2, "%s/two", dir);
    check(!shell_code("%s -q models/demo %s", convert_bin, demo), "convert models/demo", NULL);
}

#endif
