/* log.c: see log.h. JSON has no NaN: what was not measured is null there, and empty in CSV. */
#include "log.h"

#include <string.h>

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_number(FILE *out, const char *name, double value)
{
    if (isfinite(value))
        fprintf(out, ",\"%s\":%.6g", name, value);
    else
        fprintf(out, ",\"%s\":null", name);
}

static void json_tensors(FILE *out, const char *name, const double values[TENSORS])
{
    fprintf(out, ",\"%s\":{", name);
    for (int t = 0; t < TENSORS; t++) {
        fprintf(out, isfinite(values[t]) ? "%s\"%s\":%.6g" : "%s\"%s\":null", t > 0 ? "," : "",
                network_tensors[t].name, values[t]);
    }
    fputc('}', out);
}

static void json_step(FILE *out, const step_record *r)
{
    fprintf(out, "{\"event\":\"step\",\"epoch\":%d,\"step\":%d,\"steps\":%d,\"images\":%.0f",
            r->epoch, r->step, r->steps, r->images);
    json_number(out, "seconds", r->seconds);
    json_number(out, "rate", r->rate);
    json_number(out, "loss", r->loss);
    json_number(out, "accuracy", r->accuracy);
    json_number(out, "test_accuracy", r->test_accuracy);
    json_number(out, "orthogonality", r->orthogonality);
    json_tensors(out, "tensors", r->tensor);
    fputs("}\n", out);
}

static void json_summary(FILE *out, const run_summary *s)
{
    fprintf(out, "{\"event\":\"summary\",\"op\":\"%s\",\"ranks\":%d,\"workers\":%d,\"steps\":%d",
            rueda_op_name(s->op), s->ranks, s->workers, s->steps);
    fprintf(out, ",\"diverged\":%s,\"test_accuracy\":[", s->diverged ? "true" : "false");
    for (int i = 0; i < s->epochs; i++)
        fprintf(out, isfinite(s->test_accuracy[i]) ? "%s%.4f" : "%snull", i > 0 ? "," : "",
                s->test_accuracy[i]);
    fputc(']', out);
    json_number(out, "images_per_second", s->images_per_second);
    json_number(out, "seconds", s->seconds);
    json_number(out, "orthogonality_first", s->first);
    json_number(out, "orthogonality_last", s->last);
    json_tensors(out, "tensors_first", s->tensor_first);
    json_tensors(out, "tensors_last", s->tensor_last);
    fputs("}\n", out);
}

/* ---- CSV, and the log ------------------------------------------------------------------------ */

bool log_open(log_file *log, const char *path, FILE *events)
{
    *log = (log_file){.events = events};
    if (path == NULL)
        return true;
    log->json = strcmp(strrchr(path, '.'), ".json") == 0;
    log->file = fopen(path, "w");
    if (log->file == NULL)
        return false;
    if (!log->json) {
        fputs("epoch,step,seconds,images,rate,loss,accuracy,test_accuracy,orthogonality",
              log->file);
        for (int t = 0; t < TENSORS; t++)
            fprintf(log->file, ",%s", network_tensors[t].name);
        fputc('\n', log->file);
    }
    return true;
}

static void csv_number(FILE *out, double value)
{
    if (isfinite(value))
        fprintf(out, ",%.6g", value);
    else
        fputc(',', out);
}

void log_step(log_file *log, const step_record *r)
{
    if (log->events != NULL)
        json_step(log->events, r);
    if (log->file == NULL)
        return;
    if (log->json) {
        json_step(log->file, r);
        return;
    }
    fprintf(log->file, "%d,%d,%.4f,%.0f", r->epoch, r->step, r->seconds, r->images);
    csv_number(log->file, r->rate);
    csv_number(log->file, r->loss);
    csv_number(log->file, r->accuracy);
    csv_number(log->file, r->test_accuracy);
    csv_number(log->file, r->orthogonality);
    for (int t = 0; t < TENSORS; t++)
        csv_number(log->file, r->tensor[t]);
    fputc('\n', log->file);
}

bool log_close(log_file *log, const run_summary *s)
{
    if (log->events != NULL)
        json_summary(log->events, s);
    if (log->file == NULL)
        return true;
    if (log->json)
        json_summary(log->file, s);
    const bool good = ferror(log->file) == 0;
    return fclose(log->file) == 0 && good;
}
