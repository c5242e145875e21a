/* batch_check.c: --check. */
#include "cli/modes/batch/batch.h"

#include "cli/run.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <stdio.h>
#include <string.h>

int batch_check(struct batch_run *b, struct err *e)
{
    struct input_line line;
    uint64_t slot, n_failed = 0, n_prompt = 0;
    int more;
    while ((more = batch_next(b, &line, &slot, e)) == 1) {
        if (run_stop_requested) {
            fprintf(stderr, "stopped before line %llu\n", (unsigned long long)line.number);
            return 4;
        }
        struct job *j;
        struct refusal why;
        int rc = job_open(&j, &b->env, &line, b->plain, &b->defaults, &why, e);
        if (!rc) rc = job_take_grammar(j, 1, &why, e);
        if (rc < 0) return 1;
        char id[PRINTABLE];
        snprintf(id, sizeof id, "%.*s", (int)j->record.id_bytes, j->record.id);
        printable_bytes(id, strlen(id));
        if (rc)
            printf("%s %llu (%s): %s\n", b->table ? "row" : "line", (unsigned long long)line.number,
                   id, why.why.msg);
        else n_prompt += (uint64_t)job_prompt_tokens(j);
        n_failed += rc != 0;
        batch_see_id(b, &j->record);
        job_close(j);
    }
    if (more < 0) return 1;
    printf("%llu record%s, %llu would fail; %llu prompt token%s\n", (unsigned long long)b->n_slots,
           units_s(b->n_slots), (unsigned long long)n_failed, (unsigned long long)n_prompt,
           units_s(n_prompt));
    if (fflush(stdout)) {
        err_sys(e, "cannot write to stdout");
        return 1;
    }
    return n_failed ? 3 : 0;
}
